#include "common/dataset/feature_table.h"

#include <algorithm>
#include <utility>

#include "common/crypto/invariant.h"
#include "common/dataset/features.h"

namespace splitveil {

namespace {

// Once, so that Gather need not check each row of each batch.
void CheckRows(const Dataset& dataset, absl::Span<const uint32_t> rows) {
  CheckInvariant(std::all_of(rows.begin(), rows.end(), [&](uint32_t row) { return row < dataset.rows(); }),
                 "FeatureTable: every row is one of the dataset");
}

}  // namespace

FeatureTable::FeatureTable(std::shared_ptr<const Dataset> dataset, std::vector<uint32_t> rows)
    : dataset_(std::move(dataset)), owned_(std::move(rows)), rows_(owned_) {
  CheckRows(*dataset_, rows_);
}

FeatureTable::FeatureTable(std::shared_ptr<const Dataset> dataset, absl::Span<const uint32_t> rows)
    : dataset_(std::move(dataset)), rows_(rows) {
  CheckRows(*dataset_, rows_);
}

FeatureBatch FeatureTable::Gather(absl::Span<const uint32_t> positions) const {
  std::vector<uint32_t> rows;
  rows.reserve(positions.size());
  for (const uint32_t position : positions) {
    rows.push_back(rows_[position]);
  }
  return dataset_->Gather(rows);
}

}  // namespace splitveil
