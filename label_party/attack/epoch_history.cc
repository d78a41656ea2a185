#include "label_party/attack/epoch_history.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "common/checkpoint/progress_archive.h"

namespace splitveil {
namespace {

// The mean moves from `mean` to `rows` by `share` of the way.
void Move(float share, ConstMatrixView rows, Matrix& mean) {
  std::transform(rows.data(), rows.data() + rows.size(), mean.data(), mean.data(),
                 [share](float value, float so_far) { return so_far + share * (value - so_far); });
}

}  // namespace

void EpochHistory::Add(ConstMatrixView rows) {
  if (epochs_ == kSlots * epochs_per_slot_) {
    Halve();
  }
  const int64_t in_slot = epochs_ % epochs_per_slot_;
  if (in_slot == 0) {
    slots_.emplace_back(rows);
  } else {
    Move(1.0F / static_cast<float>(in_slot + 1), rows, slots_.back());
  }
  ++epochs_;
}

void EpochHistory::Halve() {
  for (size_t pair = 0; 2 * pair + 1 < slots_.size(); ++pair) {
    Matrix& mean = slots_[2 * pair];
    Move(0.5F, slots_[2 * pair + 1], mean);
    std::swap(slots_[pair], mean);
  }
  slots_.resize(slots_.size() / 2);
  epochs_per_slot_ *= 2;
}

void EpochHistory::CheckLoaded() const {
  RefuseUnless(epochs_ >= 0 && epochs_per_slot_ >= 1 && epochs_ <= kSlots * epochs_per_slot_ &&
               static_cast<int64_t>(slots_.size()) == (epochs_ + epochs_per_slot_ - 1) / epochs_per_slot_ &&
               std::all_of(slots_.begin(), slots_.end(),
                           [&](const Matrix& slot) { return slot.rows() == examples_ && slot.cols() == width_; }));
}

Matrix EpochHistory::Rows(int64_t first, int64_t count) const {
  Matrix rows = Matrix::ToOverwrite(count, width());
  for (int64_t j = 0; j < count; ++j) {
    float* to = rows.row(j).data();
    for (const Matrix& slot : slots_) {
      to = std::copy_n(slot.row(first + j).data(), width_, to);
    }
  }
  return rows;
}

}  // namespace splitveil
