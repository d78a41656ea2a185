// Another order for rows that come as a stream.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_SHUFFLED_ROWS_H_
#define SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_SHUFFLED_ROWS_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "deploy/operator/preparation/dataset_writer.h"
#include "deploy/operator/preparation/seeded_draws.h"

#include "common/status/status_macros.h"

namespace splitveil {

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

#endif  // SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_SHUFFLED_ROWS_H_
