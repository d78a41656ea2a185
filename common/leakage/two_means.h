// Clustering attack: the batch falls into two clusters, and the smaller one is taken for the positives.
#ifndef SPLITVEIL_COMMON_LEAKAGE_TWO_MEANS_H_
#define SPLITVEIL_COMMON_LEAKAGE_TWO_MEANS_H_

#include <vector>

#include "absl/types/span.h"

#include "common/matrix/matrix.h"

namespace splitveil {

// Lloyd's iterations at most; they mostly settle in fewer.
inline constexpr int kTwoMeansIterations = 10;

// Squared distance to the larger cluster's centre less that to the smaller's, by two-means clustering from the halves
// on both sides of the mean along `direction` ([cols], the first principal direction is best). Where both clusters are
// of one size, the one towards `direction` counts as the smaller; where there is only one, or no direction, all scores
// are 0. Liu et al., "Clustering Label Inference Attack against Practical Split Learning", arXiv 2203.05222. [rows]
std::vector<float> TwoMeansScores(ConstMatrixView rows, absl::Span<const float> direction);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_LEAKAGE_TWO_MEANS_H_
