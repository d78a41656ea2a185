// Clustering attack: the batch falls into two clusters, and the smaller one is taken for the positives.
#ifndef SPLITVEIL_COMMON_LEAKAGE_TWO_MEANS_H_
#define SPLITVEIL_COMMON_LEAKAGE_TWO_MEANS_H_

#include <vector>

#include "absl/types/span.h"

namespace splitveil {

class Matrix;

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

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_LEAKAGE_TWO_MEANS_H_
