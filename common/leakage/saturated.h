// From a score in double precision to the float that is submitted.
#ifndef SPLITVEIL_COMMON_LEAKAGE_SATURATED_H_
#define SPLITVEIL_COMMON_LEAKAGE_SATURATED_H_

#include <algorithm>
#include <cmath>
#include <limits>

namespace splitveil {

// The nearest finite float, so that no finite gradient gives an infinite score. What is not finite stays so: it must
// reach whoever refuses it.
inline float Saturated(double score) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  return static_cast<float>(std::isfinite(score) ? std::clamp(score, -kLargest, kLargest) : score);
}

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_LEAKAGE_SATURATED_H_
