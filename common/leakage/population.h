// What the strongest adversary of the paper's threat model knows: the class-conditional moments of the perturbed
// gradients (Li et al., ICLR 2022, section 3.2: any scoring function, chosen with knowledge of the distributions).
#ifndef SPLITVEIL_COMMON_LEAKAGE_POPULATION_H_
#define SPLITVEIL_COMMON_LEAKAGE_POPULATION_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/matrix/matrix.h"

namespace splitveil {

// Two Gaussian classes of the form that Theorem 2's noise gives them: on the line of `direction` and across it.
struct Population {
  struct Class {
    double mean = 0;    // Of <g - origin, direction>.
    double along = 0;   // Variance on that line.
    double across = 0;  // Mean variance of each of the d - 1 directions across it, about the origin.
  };
  std::vector<float> direction;  // Unit vector, [d]: difference of the clean class means.
  std::vector<float> origin;     // [d]: clean mean of the negatives.
  // As the paper models them, and as the bounds do: the clean spread of a class is the same in every direction (u and
  // v, section 4.2), and the noise adds to it.
  Class negative, positive;
  // As they are measured on the released rows.
  Class measured_negative, measured_positive;
};

// Direction and origin from the clean gradients, so that their noise is no part of what is estimated in sample; the
// variances from the clean rows and their difference to the released ones, the measured ones from the rows as released.
// Both [batch, d]. Errors: FailedPrecondition where a class is absent or the clean means coincide; InvalidArgument for
// shapes that differ.
absl::StatusOr<Population> EstimatePopulation(ConstMatrixView clean, ConstMatrixView released,
                                              absl::Span<const uint8_t> labels);

enum class Spread { kModel, kMeasured };

// log p1(g) - log p0(g) of every row: the Bayes-optimal score for such classes (Neyman-Pearson). A class without
// spread counts as having the smallest the other's resolution allows, so that every score is finite. [rows]
std::vector<float> LikelihoodRatioScores(ConstMatrixView gradients, const Population& population,
                                         Spread spread = Spread::kModel);

// <g - origin, direction> of every row. [rows]
std::vector<float> DirectionScores(ConstMatrixView gradients, const Population& population);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_LEAKAGE_POPULATION_H_
