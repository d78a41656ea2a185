// Activations of some examples as they come in an epoch.
#ifndef SPLITVEIL_LABEL_PARTY_ATTACK_EPOCH_ROWS_H_
#define SPLITVEIL_LABEL_PARTY_ATTACK_EPOCH_ROWS_H_

#include <cereal/access.hpp>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

#include "common/matrix/matrix.h"

namespace splitveil {

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

#endif  // SPLITVEIL_LABEL_PARTY_ATTACK_EPOCH_ROWS_H_
