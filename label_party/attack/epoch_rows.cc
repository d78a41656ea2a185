#include "label_party/attack/epoch_rows.h"

#include <cstddef>

namespace splitveil {

void EpochRows::Set(uint32_t epoch, int64_t rank, absl::Span<const float> row) {
  if (has_come_.empty()) {
    rows_ = Matrix(examples_, width_);
  }
  if (has_come_.empty() || epoch != epoch_) {
    epoch_ = epoch;
    has_come_.assign(static_cast<size_t>(examples_), false);
    missing_ = examples_;
  }
  rows_.SetBlock(rank, {row.data(), 1, width_});
  if (!has_come_[rank]) {
    has_come_[rank] = true;
    --missing_;
  }
}

}  // namespace splitveil
