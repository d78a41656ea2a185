// The majority-counting form of the direction attack, which needs no oracle.
#ifndef SPLITVEIL_COMMON_LEAKAGE_MAJORITY_DIRECTION_H_
#define SPLITVEIL_COMMON_LEAKAGE_MAJORITY_DIRECTION_H_

#include <cstdint>
#include <vector>

namespace splitveil {

class Matrix;

// Rows that every row is compared with, at most: evenly spaced ones of a larger batch, so that the attack costs
// batch x d and not batch^2 x d. The share it estimates is off by at most 0.06 (one standard deviation).
inline constexpr int64_t kMajorityReferences = 64;

// Minus the share of the other rows with a positive cosine: a negative agrees with most of a batch whose majority is
// negative (Li et al., ICLR 2022, section 3.3). Rows of equal share are ordered by minus their mean cosine, which adds
// less than half a step of the share. A row of zeros agrees with none. [rows]
std::vector<float> MajorityDirectionScores(ConstMatrixView gradients);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_LEAKAGE_MAJORITY_DIRECTION_H_
