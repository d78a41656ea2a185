// Scores in order, with their labels: what every AUC starts from.
#ifndef SPLITVEIL_COMMON_LEAKAGE_RANKED_SCORES_H_
#define SPLITVEIL_COMMON_LEAKAGE_RANKED_SCORES_H_

#include <cstdint>
#include <vector>

namespace splitveil {

struct RankedScore {
  float score = 0;    // Not NaN.
  uint8_t label = 0;  // 0 or 1.
};

// Sorts by score, ascending; what is tied stays in its order. -0 ties with 0. A radix sort on the bits of the scores,
// several times as fast as comparing. O(n) time and memory.
void SortByScore(std::vector<RankedScore>& scores);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_LEAKAGE_RANKED_SCORES_H_
