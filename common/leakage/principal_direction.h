// The line on which the rows of a stream of batches vary most, and which way along it the positives lie.
#ifndef SPLITVEIL_COMMON_LEAKAGE_PRINCIPAL_DIRECTION_H_
#define SPLITVEIL_COMMON_LEAKAGE_PRINCIPAL_DIRECTION_H_

#include <cereal/access.hpp>
#include <vector>

#include "absl/types/span.h"

#include "common/matrix/matrix.h"

namespace splitveil {

// First principal direction of each batch: gradients of the two classes differ along one line, and noise that is to
// hide the difference well lies along it too. Nothing but the rows is needed:
//  - The line turns slowly as the model learns. It is found by power iteration from the batch before, and what that
//    batch found counts `memory` times as much as what this one adds, which averages noise that has no line of its
//    own.
//  - What is remembered of the rows from earlier epochs, under noise that was independent of this one's, leads to the
//    line as labels would.
//  - Positives are fewer, so their side has the longer tail: the third moment says which side that is. In one batch of
//    noisy gradients it is a weak hint; the direction keeps its orientation from batch to batch and the third moments
//    of all of them vote.
// Not thread-safe.
class PrincipalDirection {
 public:
  // How many batches' worth the direction of the batch before counts for: against noise that has no line of its own,
  // and for noise whose line is that of the batch.
  static constexpr double kLongMemory = 10;
  static constexpr double kNoMemory = 0;
  explicit PrincipalDirection(double memory = kLongMemory) : memory_(memory) {}

  // Takes in the next batch: the centred rows' projections, oriented as those of the batch before. Times orientation(),
  // larger means "positive". All 0 where the rows are equal or not finite; nothing is remembered of such a batch.
  // [rows]
  // `evidence`: what is known of each row from elsewhere, larger on the side that the projections of earlier batches
  // had positive, of standard deviation 1 or all 0; or empty. The line then leans towards where it points.
  std::vector<double> Project(ConstMatrixView rows, absl::Span<const float> evidence = {});

  // 1 or -1, by the votes so far. It may change: what is summed over batches is to be summed without it.
  double orientation() const { return votes_ < 0 ? -1 : 1; }

  // Unit vector, oriented as the projections; empty before the first batch that has one. [cols]
  absl::Span<const float> direction() const { return direction_; }

 private:
  friend class cereal::access;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(memory_, direction_, votes_);
  }

  double memory_;
  std::vector<float> direction_;
  double votes_ = 0;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_LEAKAGE_PRINCIPAL_DIRECTION_H_
