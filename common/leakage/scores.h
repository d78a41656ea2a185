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

// r_d(g) = cos(g, g_plus) of every row; 0 if either vector is zero. g_plus: [cols].
std::vector<float> CosineScores(ConstMatrixView gradients, absl::Span<const float> g_plus);

// Both of the same rows, which are read for their norms once. `cosines` is empty if g_plus is.
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

  // Minus the Euclidean distance to the nearest of the first `hints` hint rows, or of all if there are fewer. [rows]
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

// Lloyd's iterations at most; they mostly settle in fewer.
inline constexpr int kTwoMeansIterations = 10;

// Two clusters of a batch, from one side of a direction to the other.
struct TwoMeans {
  // Squared distance to the centre against the direction less that to the centre along it; all 0 if there is only
  // one cluster. [rows]
  std::vector<float> scores;
  double share_along = 0.5;  // Of the rows, in the cluster along the direction; 0.5 if there is only one cluster.
};

// Two-means clustering from the halves on both sides of the mean along `direction` ([cols], the first principal
// direction is best; empty: one cluster). Liu et al., "Clustering Label Inference Attack against Practical Split
// Learning", arXiv 2203.05222, take the smaller cluster for the positives.
TwoMeans ClusterInTwo(ConstMatrixView rows, absl::Span<const float> direction);

// Rows that every row is compared with, at most: evenly spaced ones of a larger batch, so that the attack costs
// batch x d and not batch^2 x d. The share it estimates is off by at most 0.06 (one standard deviation).
inline constexpr int64_t kMajorityReferences = 64;

// Minus the share of the other rows with a positive cosine: a negative agrees with most of a batch whose majority is
// negative (Li et al., ICLR 2022, section 3.3). Rows of equal share are ordered by minus their mean cosine, which adds
// less than half a step of the share. A row of zeros agrees with none. [rows]
std::vector<float> MajorityDirectionScores(ConstMatrixView gradients);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_LEAKAGE_SCORES_H_
