#include "label_party/protection/isotropic_noise.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "common/leakage/gaussian_divergence.h"

namespace splitveil {

double LeastIsotropicVariance(const ClassMoments& moments, double max_sum_kl) {
  const int64_t d = static_cast<int64_t>(moments.mean_difference.size());
  const auto keeps = [&](double variance) {
    const double negative = moments.u + variance;
    const double positive = moments.v + variance;
    return SumKl({d, moments.dg_squared, negative, negative, positive, positive}) <= max_sum_kl;
  };
  if (keeps(0)) {
    return 0;
  }
  // sum_kl <= d (u-v)^2 / (2 x^2) + g / x at variance x, and so kept where each term takes half of the limit.
  const double spread = std::abs(moments.u - moments.v);
  double enough = std::max({spread * std::sqrt(static_cast<double>(d) / max_sum_kl),
                            2 * moments.dg_squared / max_sum_kl, std::numeric_limits<double>::min()});
  while (std::isfinite(enough) && !keeps(enough)) {
    enough *= 2;  // Rounding, at most.
  }
  if (!std::isfinite(enough)) {
    return std::numeric_limits<double>::infinity();
  }
  double too_little = 0;
  constexpr double kSlack = 1e-9;
  constexpr int kMaxSteps = 1200;  // Doubles have fewer halvings than that.
  for (int step = 0; step < kMaxSteps && enough - too_little > kSlack * enough; ++step) {
    const double middle = too_little + (enough - too_little) / 2;
    (keeps(middle) ? enough : too_little) = middle;
  }
  return enough;
}

}  // namespace splitveil
