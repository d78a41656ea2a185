// Scoring functions r: gradient -> score; larger means "positive" (Li et al., ICLR 2022, section 3.3).
#ifndef SPLITVEIL_COMMON_LEAKAGE_SCORES_H_
#define SPLITVEIL_COMMON_LEAKAGE_SCORES_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace splitveil {

class ConstMatrixView;

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

// The hint attack: some positives of the batch are known, and the others resemble them.

// Every row of a batch against each hint row: inner products, computed once for all the attacks that take them. The
// hints' gradients are those the adversary sees, perturbed as all others.
class HintScores {
 public:
  // `hint_rows`: inside the batch.
  HintScores(ConstMatrixView gradients, absl::Span<const uint32_t> hint_rows);

  // Minus the Euclidean distance to the nearest of the first `hints` hint rows, or of all where there are fewer. [rows]
  std::vector<float> Distance(int hints) const;

  // Largest inner product with one of them. [rows]
  std::vector<float> InnerProduct(int hints) const;

 private:
  template <typename Closeness>
  std::vector<float> Nearest(int hints, const Closeness& closeness) const;

  std::vector<uint32_t> hint_rows_;
  std::vector<double> squared_norms_;  // [rows]
  std::vector<double> products_;       // [rows, hint_rows]
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_LEAKAGE_SCORES_H_
