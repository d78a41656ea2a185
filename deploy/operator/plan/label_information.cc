#include "deploy/operator/plan/label_information.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace splitveil {

double LabelInformationKept(double sigma, double p) {
  if (!(p > 0 && p < 1 && sigma >= 0 && std::isfinite(sigma))) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  if (sigma == 0) {
    return 1;
  }
  // In units of sigma, with the labels at 0 and mu: the trapezoid rule converges exponentially for a smooth integrand
  // that vanishes at both ends; its nearest poles, where the mixture vanishes, are pi / mu off the real line, so that
  // the error is of order e^(-2 pi^2 / (mu step)). Beyond 12 nothing is left.
  const double mu = 1 / sigma;
  constexpr double kEnd = 12;
  const double step = std::min(1. / 64, 0.5 / mu);
  const auto steps = static_cast<int64_t>((2 * kEnd + mu) / step);
  double sum = 0;
  for (int64_t i = 0; i <= steps; ++i) {
    const double x = -kEnd + step * static_cast<double>(i);
    const double phi0 = std::exp(-x * x / 2), phi1 = std::exp(-(x - mu) * (x - mu) / 2);
    const double mixture = p * phi1 + (1 - p) * phi0;
    if (mixture > 0) {
      // expm1 keeps the difference of two densities that nearly agree.
      const double difference =
          phi0 > 0 && std::abs(mu * (x - mu / 2)) < 1 ? phi0 * std::expm1(mu * (x - mu / 2)) : phi1 - phi0;
      sum += difference * difference / mixture;
    }
  }
  constexpr double kInverseRootTwoPi = 0.39894228040143267794;
  return p * (1 - p) * kInverseRootTwoPi * step * sum;
}

}  // namespace splitveil
