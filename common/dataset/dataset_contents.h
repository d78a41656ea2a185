// What a file of prepared data holds, checked. dataset.h says what lies where in it.
#ifndef SPLITVEIL_COMMON_DATASET_DATASET_CONTENTS_H_
#define SPLITVEIL_COMMON_DATASET_DATASET_CONTENTS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "common/dataset/feature_shape.h"
#include "common/dataset/id_list.h"
#include "common/dataset/task.h"
#include "common/storage/section_file.h"

#include "splitveil/v1/preprocessing.pb.h"

namespace splitveil {

// Views into the mapped file, which must outlive them. r: rows, n: numeric columns without pixels, c: categorical ones,
// a: attributes.
struct DatasetContents {
  v1::Preprocessing preprocessing;
  FeatureShape features;
  IdList ids{absl::Span<const std::string>()};  // [r]
  absl::Span<const uint64_t> id_ends;           // [r]
  absl::string_view id_bytes;                   // Back to back.
  Task task;                                    // Binary where there are no labels.
  absl::Span<const uint8_t> labels;             // [r], or empty.
  absl::Span<const float> targets;              // [r], or empty.
  absl::Span<const float> numeric;              // [r, n]
  absl::Span<const int32_t> categories;         // [r, c]
  absl::Span<const uint8_t> pixels;             // [r, channels, height, width]
  absl::Span<const uint8_t> attributes;         // [r, a]
  absl::Span<const uint8_t> parts;              // [r], or empty.
  absl::Span<const uint64_t> vocabulary_ends;   // Of the values seen in training, column by column.
  absl::string_view vocabulary;                 // Back to back.
};

// Checks every index, length and number: nothing fails later. Hands back the memory it read as it goes.
// Errors: InvalidArgument naming the file and what is wrong with it.
absl::StatusOr<DatasetContents> ReadDatasetContents(const SectionFile& file);

// The refusal of a file that is not what `splitveil prepare` writes.
absl::Status NotPreparedData(const SectionFile& file, absl::string_view found);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_DATASET_DATASET_CONTENTS_H_
