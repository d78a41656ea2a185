// A party's features by position in the aligned order.
#ifndef SPLITVEIL_COMMON_DATASET_FEATURE_TABLE_H_
#define SPLITVEIL_COMMON_DATASET_FEATURE_TABLE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "common/dataset/dataset.h"
#include "common/dataset/features.h"

namespace splitveil {

struct FeatureBatch;  // common/dataset/features.h

// The aligned rows of prepared data: position i is row rows[i]. Nothing is copied but the batch asked for. Thread-safe.
class FeatureTable {
 public:
  // Every one of `rows` is below dataset->rows(). The first form keeps them; in the second they are not owned, and must
  // outlive this.
  FeatureTable(std::shared_ptr<const Dataset> dataset, std::vector<uint32_t> rows);
  FeatureTable(std::shared_ptr<const Dataset> dataset, absl::Span<const uint32_t> rows);
  FeatureTable(const FeatureTable&) = delete;
  FeatureTable& operator=(const FeatureTable&) = delete;

  const Dataset& dataset() const { return *dataset_; }
  const FeatureShape& shape() const { return dataset_->features(); }
  // The dataset's row at `position`, below rows().
  uint32_t row(uint32_t position) const { return rows_[position]; }
  int64_t rows() const { return static_cast<int64_t>(rows_.size()); }
  // Of the row at `position`, below rows(): a view into the mapped file.
  absl::string_view id(uint32_t position) const { return dataset_->ids()[rows_[position]]; }
  // Features of `positions`, in their order; each is below rows().
  FeatureBatch Gather(absl::Span<const uint32_t> positions) const;

 private:
  std::shared_ptr<const Dataset> dataset_;
  const std::vector<uint32_t> owned_;
  const absl::Span<const uint32_t> rows_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_DATASET_FEATURE_TABLE_H_
