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
  // Memory is bounded: when all columns are full, neighbours are merged and each then holds twice as many epochs.
  if (epochs_ == kSlots * epochs_per_slot_) {
    Halve();
  }
  const int64_t in_slot = epochs_ % epochs_per_slot_;
  if (in_slot == 0) {
    slots_.emplace_back(rows);
  } else {
    // A running mean needs no memory of the single epochs.
    Move(1.0F / static_cast<float>(in_slot + 1), rows, slots_.back());
  }
  ++epochs_;
}

void EpochHistory::Halve() {
  for (size_t pair = 0; 2 * pair + 1 < slots_.size(); ++pair) {
    Matrix& mean = slots_[2 * pair];
    Move(0.5F, slots_[2 * pair + 1], mean);
    // Swapped, not copied: a column may have hundreds of megabytes.
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

void EpochRows::Set(uint32_t epoch, int64_t rank, absl::Span<const float> row) {
  if (has_come_.empty()) {
    rows_ = Matrix(examples_, width_);
  }
  // The first row of a new epoch drops the old one: half of one epoch and half of the next is no picture of either.
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
