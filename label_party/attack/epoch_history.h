// Activations of some examples: those of one epoch, and over all epochs so far.
#ifndef SPLITVEIL_LABEL_PARTY_ATTACK_EPOCH_HISTORY_H_
#define SPLITVEIL_LABEL_PARTY_ATTACK_EPOCH_HISTORY_H_

#include <cereal/access.hpp>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

#include "common/matrix/matrix.h"

namespace splitveil {

// What came in each epoch side by side, in at most kSlots columns of `width` numbers for each of `examples` examples:
// beyond kSlots epochs each column is the mean over 2, 4, ... neighbouring ones, so that none is forgotten. Not
// thread-safe.
class EpochHistory {
 public:
  static constexpr int64_t kSlots = 32;

  EpochHistory(int64_t examples, int64_t width) : examples_(examples), width_(width) {}

  // `rows` [examples, width]: of the epoch after those so far.
  void Add(ConstMatrixView rows);
  // Numbers of an example: columns times width. The latest column may be a mean of fewer epochs.
  int64_t width() const { return static_cast<int64_t>(slots_.size()) * width_; }
  // Of the examples [first, first + count): [count, width()].
  Matrix Rows(int64_t first, int64_t count) const;

 private:
  friend class cereal::access;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(epochs_, epochs_per_slot_, slots_);
    if (Archive::is_loading::value) {
      CheckLoaded();
    }
  }
  // Throws, as cereal does, unless it is one of as many examples and of this width.
  void CheckLoaded() const;
  // Neighbouring columns become one.
  void Halve();

  int64_t examples_;
  int64_t width_;
  int64_t epochs_ = 0;
  int64_t epochs_per_slot_ = 1;
  std::vector<Matrix> slots_;  // [examples, width] each.
};

// A row of `width` numbers for each of `examples` examples, of one epoch: the first row of another drops those before.
// Memory is taken with the first row. Not thread-safe.
class EpochRows {
 public:
  EpochRows(int64_t examples, int64_t width) : examples_(examples), width_(width) {}

  int64_t examples() const { return examples_; }
  int64_t width() const { return width_; }
  // The row of example `rank` < examples(), [width]. A row that has come already is replaced.
  void Set(uint32_t epoch, int64_t rank, absl::Span<const float> row);
  // Whether there are examples and every one's row of `epoch` has come.
  bool IsComplete(uint32_t epoch) const { return missing_ == 0 && epoch == epoch_ && !has_come_.empty(); }
  // [examples, width], once complete.
  ConstMatrixView rows() const { return rows_; }

 private:
  friend class cereal::access;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(epoch_, rows_, has_come_, missing_);
    if (Archive::is_loading::value) {
      CheckLoaded();
    }
  }
  // Throws, as cereal does, unless they are rows of as many examples and of this width.
  void CheckLoaded() const;

  int64_t examples_;
  int64_t width_;
  uint32_t epoch_ = 0;
  Matrix rows_;
  std::vector<bool> has_come_;  // Empty before the first row.
  int64_t missing_ = 0;
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_ATTACK_EPOCH_HISTORY_H_
