// The file of a party's prepared data, and how it is checked.
//
// A section_file of these sections; r: rows, n: numeric columns without pixels, c: categorical columns, a: attributes:
//   preprocessing    v1.Preprocessing: how it was made, counts, shapes
//   id_ends, ids     u64 [r], and the ids back to back: id i is bytes [id_ends[i - 1], id_ends[i])
//   labels           u8 [r], 0 or 1, or the number of the class; empty at a party without labels and of a regression
//   targets          float32 [r], in [0, 1]; absent but of a regression
//   numeric          float32 [r, n], scaled
//   categories       int32 [r, c], rows of the shared embedding table
//   pixels           u8 [r, channels, height, width]; absent where rows have no image
//   attributes       u8 [r, a], the number of the value or kUnknownAttribute; absent where there are none
//   parts            u8 [r], SplitPart; absent but of a split by group or time, since otherwise the ids tell
//   vocabulary_ends, vocabulary: the values seen in training like the ids, column by column
// All numbers are little-endian.
#ifndef SPLITVEIL_COMMON_DATASET_DATASET_CONTENTS_H_
#define SPLITVEIL_COMMON_DATASET_DATASET_CONTENTS_H_

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "common/dataset/features.h"
#include "common/dataset/id_list.h"
#include "common/dataset/task.h"
#include "common/storage/section_file.h"

#include "splitveil/v1/preprocessing.pb.h"

namespace splitveil {

// What a file of prepared data holds: views into the mapped file, which must outlive them. r: rows, n: numeric columns
// without pixels, c: categorical ones, a: attributes.
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

// The sections of `file`, all of which fit one another, with every length and number in range. `knows_features`:
// numbers and categories were found valid before and are not read again. Error: InvalidArgument with the file and what
// was found in it. Thread-safe, as all here.
absl::StatusOr<DatasetContents> ReadDatasetContents(const SectionFile& file, bool knows_features);

// The refusal of a file that is not what `splitveil prepare` writes.
absl::Status NotPreparedData(const SectionFile& file, absl::string_view found);

// What ReadDatasetContents asks of a category and of a number.
inline bool IsEmbeddingRow(int64_t row, const FeatureShape& features) {
  return row >= 0 && row < features.embedding_rows;
}
// A comparison, and no call, so that loops over it are vectorised.
inline bool IsFinite(float number) { return std::abs(number) <= std::numeric_limits<float>::max(); }

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_DATASET_DATASET_CONTENTS_H_
