// Scoring functions r: gradient -> score; larger means "positive" (Li et al., ICLR 2022, section 3.3).
#ifndef SPLITVEIL_COMMON_LEAKAGE_SCORES_H_
#define SPLITVEIL_COMMON_LEAKAGE_SCORES_H_

#include <vector>

#include "absl/types/span.h"

namespace splitveil {

class Matrix;

// r_n(g) = ||g||_2 of every row. [rows]
std::vector<float> NormScores(ConstMatrixView gradients);

// r_d(g) = cos(g, g_plus) of every row; 0 where either vector is zero. g_plus: [cols].
std::vector<float> CosineScores(ConstMatrixView gradients, absl::Span<const float> g_plus);

// Both of the same rows, which are read for their norms once. `cosines` is empty where g_plus is.
struct NormAndCosineScores {
  std::vector<float> norms, cosines;
};
NormAndCosineScores ScoreNormsAndCosines(ConstMatrixView gradients, absl::Span<const float> g_plus);

// <g, g_plus> of every row. g_plus: [cols].
std::vector<float> InnerProductScores(ConstMatrixView gradients, absl::Span<const float> g_plus);

// ||g - <g, direction> direction||_2 of every row. direction: unit vector, [cols], or empty: the whole norm. [rows]
std::vector<float> ResidualNormScores(ConstMatrixView gradients, absl::Span<const float> direction);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_LEAKAGE_SCORES_H_
