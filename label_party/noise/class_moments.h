// What Marvell needs to know of a batch: class shares, means and variances (Li et al., ICLR 2022, Algorithm 1, step 1).
#ifndef SPLITVEIL_LABEL_PARTY_NOISE_CLASS_MOMENTS_H_
#define SPLITVEIL_LABEL_PARTY_NOISE_CLASS_MOMENTS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/matrix/matrix.h"

namespace splitveil {

// Labels are indices of classes in [0, kClasses): nothing but ClassMoments (two classes, their means' difference dg)
// and Theorem 2 behind Marvell, which read it, holds to two.
inline constexpr int kClasses = 2;

// Maximum likelihood estimates over one batch. The algorithm's first line divides by d in print; p is y'1 / B.
struct ClassMoments {
  int64_t negatives = 0;
  int64_t positives = 0;
  double p = 0;                         // Share of positives.
  std::vector<double> mean_difference;  // dg = mean of the positives - mean of the negatives, [d]; zero for one class.
  double dg_squared = 0;                // ||dg||^2
  double u = 0;                         // Variance of a component within class 0; 0 where the class is absent.
  double v = 0;                         // Variance of a component within class 1; 0 where the class is absent.
  double max_squared_norm = 0;          // Largest ||g_j||^2.
  double mean_squared_norm = 0;

  // Whether the batch says how the classes differ: both are there, and their means differ by more than the resolution
  // of a float beside the largest row, below which noise of that scale would vanish in rounding.
  bool informative() const;
};

// One pass over gradients [batch, d], in double, each class shifted by its first row so that equal rows have variance
// exactly 0. labels: 0 or 1, [batch]. `squared_norms`: where given, becomes ||g_j||^2 of each row, [batch]. Errors:
// InvalidArgument for an empty batch, another number of labels or another label; Internal for a gradient that is not
// finite. Thread-safe.
absl::StatusOr<ClassMoments> ComputeClassMoments(ConstMatrixView gradients, absl::Span<const uint8_t> labels,
                                                 std::vector<double>* squared_norms = nullptr);

// Exponential averages over the informative batches of a run, which stand in where a batch says nothing about the
// difference of its classes (architecture rule 3). Not thread-safe.
class RunningMoments {
 public:
  // Ignores batches that are not informative, so that perturbing one again gives the same bytes.
  void Update(const ClassMoments& batch);

  // Moments to go by until the first informative batch, which takes their place. Ignores what is not informative, and
  // everything after that batch.
  void PrimeMoments(const ClassMoments& moments);

  // The averages as they stand; nullopt before the first informative batch.
  std::optional<ClassMoments> average() const { return started_ ? std::optional(average_) : std::nullopt; }

  // Goes on from the average() of an earlier run. Ignores what is not informative.
  void RestoreMoments(const ClassMoments& average);

  // False until the first informative or primed moments, and while the averaged directions of dg cancel.
  bool available() const;

  // Averages of p, u, v, ||dg||^2, the largest and mean squared norm; dg points along the averaged difference and has
  // the averaged length. Counts are 0. Requires available().
  ClassMoments Estimate() const;

  // Largest squared norm, averaged; 0 before the first informative or primed moments.
  double max_squared_norm() const { return average_.max_squared_norm; }

  // The squared norm by which noise is scaled where `batch` itself is no guide: the larger of its largest and the
  // average's; 1 where both are 0, since a gradient of the log loss is of order 1 at most.
  double FallbackScale(const ClassMoments& batch) const;

 private:
  bool primed_ = false;
  bool started_ = false;
  ClassMoments average_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_NOISE_CLASS_MOMENTS_H_
