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
  Class negative, positive;
};

// Direction and origin from the clean gradients, so that their noise is no part of what is estimated in sample; the six
// scalars from the rows as released. Both [batch, d]. Errors: FailedPrecondition where a class is absent or the clean
// means coincide; InvalidArgument for shapes that differ.
absl::StatusOr<Population> EstimatePopulation(ConstMatrixView clean, ConstMatrixView released,
                                              absl::Span<const uint8_t> labels);

// log p1(g) - log p0(g) of every row: the Bayes-optimal score for such classes (Neyman-Pearson). A class without
// spread counts as having the smallest the other's resolution allows, so that every score is finite. [rows]
std::vector<float> LikelihoodRatioScores(ConstMatrixView gradients, const Population& population);

// <g - origin, direction> of every row. [rows]
std::vector<float> DirectionScores(ConstMatrixView gradients, const Population& population);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_LEAKAGE_POPULATION_H_
