#include "deploy/operator/sweep/spread.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace splitveil {

Spread SpreadOf(const std::vector<double>& values) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  Spread spread{kNone, kNone, kNone};
  double sum = 0;
  int count = 0;
  for (const double value : values) {
    if (std::isfinite(value)) {
      spread.min = count == 0 ? value : std::min(spread.min, value);
      spread.max = count == 0 ? value : std::max(spread.max, value);
      sum += value;
      ++count;
    }
  }
  if (count > 0) {
    // Rounding must not put the mean of equal values outside them.
    spread.mean = std::clamp(sum / count, spread.min, spread.max);
  }
  return spread;
}

}  // namespace splitveil
