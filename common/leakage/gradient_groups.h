// Attacks that divide a batch's gradients into two groups: by clustering, and by counting which rows agree.
#ifndef SPLITVEIL_COMMON_LEAKAGE_GRADIENT_GROUPS_H_
#define SPLITVEIL_COMMON_LEAKAGE_GRADIENT_GROUPS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace splitveil {

class ConstMatrixView;

// Lloyd's iterations at most; they mostly settle in fewer.
inline constexpr int kTwoMeansIterations = 10;

// Two clusters of a batch, from one side of a direction to the other.
struct TwoMeans {
  // Squared distance to the centre against the direction less that to the centre along it; all 0 where there is only
  // one cluster. [rows]
  std::vector<float> scores;
  double share_along = 0.5;  // Of the rows, in the cluster along the direction; 0.5 where there is only one cluster.
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

#endif  // SPLITVEIL_COMMON_LEAKAGE_GRADIENT_GROUPS_H_
