// Leak AUC: how well a score tells the classes apart (Li et al., ICLR 2022, section 3.2).
#ifndef SPLITVEIL_COMMON_LEAKAGE_LEAK_AUC_H_
#define SPLITVEIL_COMMON_LEAKAGE_LEAK_AUC_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace splitveil {

struct RankedScore {
  float score = 0;    // Not NaN.
  uint8_t label = 0;  // 0 or 1.
};

// Sorts by score, ascending; what is tied stays in its order. -0 ties with 0. A radix sort on the bits of the scores,
// several times as fast as comparing. O(n) time and memory.
void SortByScore(std::vector<RankedScore>& scores);

// Exact area under the ROC curve, ties counted half (the Mann-Whitney statistic). `labels`: 0 or 1, as many as scores.
// Rows `excluded` are left out: what the adversary was told is no leak. Errors: InvalidArgument for different lengths
// or a NaN score; FailedPrecondition where one class is absent, since then there is no AUC.
absl::StatusOr<double> LeakAuc(absl::Span<const float> scores, absl::Span<const uint8_t> labels,
                               absl::Span<const uint32_t> excluded = {});

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_LEAKAGE_LEAK_AUC_H_
