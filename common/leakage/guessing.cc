#include "common/leakage/guessing.h"

#include <algorithm>
#include <cmath>

namespace splitveil {

Guessing GuessingOver(double positives, double negatives) {
  if (!(positives > 0) || !(negatives > 0)) {
    return {1, 1};
  }
  constexpr double kNormal975 = 1.959963984540054;            // Two-sided 95% of the standard normal distribution,
  constexpr double kNormalMeanDistance = 0.7978845608028654;  // and its mean distance from 0: sqrt(2 / pi).
  const double deviation = std::sqrt((positives + negatives + 1) / (12 * positives * negatives));
  return {std::min(1.0, 0.5 + kNormalMeanDistance * deviation), std::min(1.0, 0.5 + kNormal975 * deviation)};
}

}  // namespace splitveil
