// Writes prepared data as a stream of rows.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_DATASET_WRITER_H_
#define SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_DATASET_WRITER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "deploy/operator/preparation/seeded_draws.h"

#include "common/dataset/task.h"
#include "common/dataset/vocabulary.h"
#include "common/status/status_macros.h"
#include "common/storage/section_file.h"

#include "splitveil/v1/preprocessing.pb.h"

namespace splitveil {

// A row as it is stored; shapes as in dataset.h.
struct EncodedRow {
  std::string id;
  uint8_t label = 0;  // Written of two classes or more: below their number.
  float target = 0;   // Written of a regression: in [0, 1].
  std::vector<float> numeric;
  std::vector<int32_t> categories;
  std::vector<uint8_t> pixels;
  std::vector<uint8_t> attributes;
  SplitPart part = SplitPart::kTraining;  // Written where rows have parts.
};

// Constant memory. Not thread-safe.
class DatasetWriter {
 public:
  // `task`: what the rows' labels or targets are of; nullopt: they have none. `has_attributes`: whether rows have
  // sensitive attributes; `has_parts`: whether the file says in which part of the split each is. InvalidArgument where
  // the file's temporaries cannot be made.
  static absl::StatusOr<std::unique_ptr<DatasetWriter>> Create(std::string path, std::optional<Task> task,
                                                               bool has_attributes = false, bool has_parts = false);

  // Every row has as many numbers, categories, pixels and attributes as the first. Internal if it cannot be written.
  absl::Status Append(const EncodedRow& row);

  int64_t rows() const { return rows_; }
  // Rows with label 1 of two classes; 0 of other tasks.
  int64_t positives() const { return positives_; }

  // Writes the description, completed by the rows and, of two classes, the positives counted here, and the
  // vocabularies, one a categorical column. The description has the texts of several classes, the scaling of the
  // targets and the values of the attributes already. Nothing may be appended afterwards. Internal if they cannot be
  // written.
  absl::Status Finish(v1::Preprocessing preprocessing, absl::Span<const Vocabulary> vocabularies);

  // Gives all files their names, or none. Once, after Finish. Internal if they cannot be written; AlreadyExists
  // if one has a name that it may not take.
  static absl::Status Publish(absl::Span<DatasetWriter* const> writers, Replaces replaces = Replaces::kAnything);

 private:
  DatasetWriter(std::unique_ptr<SectionFileWriter> file, std::optional<Task> task, bool has_attributes, bool has_parts)
      : file_(std::move(file)), task_(task), has_attributes_(has_attributes), has_parts_(has_parts) {}
  bool Is(Task::Kind kind) const { return task_.has_value() && task_->kind == kind; }

  std::unique_ptr<SectionFileWriter> file_;
  std::optional<Task> task_;
  bool has_attributes_, has_parts_;
  int64_t rows_ = 0;
  int64_t positives_ = 0;
  uint64_t id_bytes_ = 0;
};

// Writes rows in another order with a fixed number of them in memory: each row that arrives at a full buffer takes the
// place of a random one, which is written. Not thread-safe.
class ShuffledRows {
 public:
  // `writer`: not owned; must outlive this. `buffer_rows`: at least 1; 1 keeps the order.
  ShuffledRows(DatasetWriter* writer, int64_t buffer_rows, SeededDraws draws)
      : writer_(writer), buffer_rows_(static_cast<size_t>(buffer_rows)), draws_(draws) {}

  // Errors: those of the writer.
  absl::Status Add(EncodedRow row) {
    if (rows_.size() < buffer_rows_) {
      rows_.push_back(std::move(row));
      return absl::OkStatus();
    }
    std::swap(rows_[draws_.Below(rows_.size())], row);
    return writer_->Append(row);
  }
  // Writes what is left.
  absl::Status Flush() {
    while (!rows_.empty()) {
      std::swap(rows_[draws_.Below(rows_.size())], rows_.back());
      SPLITVEIL_RETURN_IF_ERROR(writer_->Append(rows_.back()));
      rows_.pop_back();
    }
    return absl::OkStatus();
  }

 private:
  DatasetWriter* writer_;
  size_t buffer_rows_;
  SeededDraws draws_;
  std::vector<EncodedRow> rows_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_DATASET_WRITER_H_
