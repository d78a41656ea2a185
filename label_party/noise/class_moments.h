// What noise needs to know of a batch: how its classes are expected to differ, whichever labels it has.
#ifndef SPLITVEIL_LABEL_PARTY_NOISE_CLASS_MOMENTS_H_
#define SPLITVEIL_LABEL_PARTY_NOISE_CLASS_MOMENTS_H_

#include <vector>

#include "absl/status/statusor.h"

#include "common/leakage/conditional_likelihood.h"

namespace splitveil {

// Labels are indices of classes in [0, kClasses): nothing but ClassMoments (two classes, their means' difference dg)
// and Theorem 2 behind Marvell, which read it, holds to two.
inline constexpr int kClasses = 2;

// Class shares, means and variances of Marvell's first step (Li et al., ICLR 2022, Algorithm 1), with each row a
// positive to the extent p and a negative to the extent 1 - p in place of its label: the moments that labels drawn from
// the model's own predictions have. If the noise were planned from the labels themselves, its law would reveal each
// label to a peer that knows all others. The algorithm's first line divides by d in print.
struct ClassMoments {
  double p = 0;                         // Expected share of positives, in (0, 1).
  std::vector<double> mean_difference;  // dg = mean of the positives - mean of the negatives, [d].
  double dg_squared = 0;                // ||dg||^2
  double u = 0;                         // Variance of a component within class 0.
  double v = 0;                         // Variance of a component within class 1.
  double max_squared_norm = 0;          // Largest square of a gradient that any label of any row could give.
  double mean_squared_norm = 0;         // Expected square of a gradient.

  // Whether the batch says how the classes differ: their means differ by more than the resolution of a float beside the
  // longest gradient, below which noise of that scale would vanish in rounding.
  bool informative() const;

  // The square of a gradient's length that noise is scaled by if dg says nothing: the largest; 1 for a batch whose
  // labels move nothing, if noise of any size hides that.
  double Scale() const { return max_squared_norm > 0 ? max_squared_norm : 1; }
};

// In double. No row counts less than 1e-6 to either class: a model that is certain leaves none empty. Errors:
// InvalidArgument for an empty batch or not one probability a row; Internal for a direction that is not
// finite, or a probability that is none. Thread-safe.
absl::StatusOr<ClassMoments> ExpectedMoments(const LabelFreeBatch& batch);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_NOISE_CLASS_MOMENTS_H_
