// Writes prepared data as a stream of rows.
#ifndef SPLITVEIL_COMMON_DATASET_DATASET_WRITER_H_
#define SPLITVEIL_COMMON_DATASET_DATASET_WRITER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/dataset/vocabulary.h"
#include "common/storage/section_file.h"

#include "splitveil/v1/preprocessing.pb.h"

namespace splitveil {

// A row as it is stored; shapes as in dataset.h.
struct EncodedRow {
  std::string id;
  uint8_t label = 0;  // Not written where the data hold no labels.
  std::vector<float> numeric;
  std::vector<int32_t> categories;
  std::vector<uint8_t> pixels;
};

// Constant memory. Not thread-safe.
class DatasetWriter {
 public:
  // InvalidArgument where the file's temporaries cannot be made.
  static absl::StatusOr<std::unique_ptr<DatasetWriter>> Create(std::string path, bool has_labels);

  // Every row has as many numbers, categories and pixels as the first. Internal where it cannot be written.
  absl::Status Append(const EncodedRow& row);

  int64_t rows() const { return rows_; }
  int64_t positives() const { return positives_; }

  // Writes the description, completed by the rows and the positives counted here, and the vocabularies, one a
  // categorical column. Nothing may be appended afterwards. Internal where they cannot be written.
  absl::Status Finish(v1::Preprocessing preprocessing, absl::Span<const Vocabulary> vocabularies);

  // Gives all files their names, or none. Once, after Finish. Internal where they cannot be written.
  static absl::Status Publish(absl::Span<DatasetWriter* const> writers);

 private:
  DatasetWriter(std::unique_ptr<SectionFileWriter> file, bool has_labels)
      : file_(std::move(file)), has_labels_(has_labels) {}

  std::unique_ptr<SectionFileWriter> file_;
  bool has_labels_;
  int64_t rows_ = 0;
  int64_t positives_ = 0;
  uint64_t id_bytes_ = 0;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_DATASET_DATASET_WRITER_H_
