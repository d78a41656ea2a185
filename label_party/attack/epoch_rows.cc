#include "label_party/attack/epoch_rows.h"

#include <algorithm>
#include <cstddef>

#include "common/checkpoint/progress_archive.h"

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

void EpochRows::CheckLoaded() const {
  const int64_t examples = has_come_.empty() ? 0 : examples_;
  RefuseUnless(static_cast<int64_t>(has_come_.size()) == examples && rows_.rows() == examples &&
               (examples == 0 || rows_.cols() == width_) &&
               missing_ == std::count(has_come_.begin(), has_come_.end(), false));
}

}  // namespace splitveil
