#include "common/leakage/likelihood_ratio.h"

#include <algorithm>
#include <cmath>
#include <complex>

namespace splitveil {
namespace {

using Complex = std::complex<double>;

constexpr double kPi = 3.14159265358979323846;

// log E[exp(theta (curvature x^2 + slope x))] for x ~ N(mean, variance).
Complex LogMoment(Complex theta, double curvature, double slope, double mean, double variance) {
  const Complex spread = 1.0 - 2.0 * theta * curvature * variance;
  const Complex shift =
      theta * (curvature * mean * mean + slope * mean) + 0.5 * theta * theta * slope * slope * variance;
  return shift / spread - 0.5 * std::log(spread);
}

// Logarithm of the characteristic function of log p1/p0(x1) - log p1/p0(x0), x1 positive, x0 negative, independent. The
// constants of the two log ratios cancel. Coordinates: units of sqrt(along_neg) on the line of dg, the negative mean at 0.
Complex LogCharacteristic(double t, const GaussianClasses& classes) {
  const double along = classes.along_pos / classes.along_neg;
  const double distance = std::sqrt(classes.dg_squared / classes.along_neg);
  const double curvature = (along - 1) / (2 * along);
  const double slope = distance / along;
  const Complex theta(0, t);
  Complex log_phi =
      LogMoment(theta, curvature, slope, distance, along) + LogMoment(-theta, curvature, slope, 0, 1);
  if (classes.d > 1) {
    const double across = classes.across_pos / classes.across_neg;
    const double across_curvature = (across - 1) / (2 * across);
    log_phi += static_cast<double>(classes.d - 1) * (LogMoment(theta, across_curvature, 0, 0, across) +
                                                     LogMoment(-theta, across_curvature, 0, 0, 1));
  }
  return log_phi;
}

}  // namespace

double LikelihoodRatioAuc(const GaussianClasses& classes) {
  const double sum_kl = SumKl(classes);
  if (sum_kl == 0) {
    return 0.5;
  }
  // Beyond this spread the classes are told apart by their scale alone, and squares of it leave the range of a double.
  constexpr double kLargestSumKl = 1e100;
  if (!(sum_kl < kLargestSumKl)) {
    return 1;
  }
  // Trapezoid rule in log t, where Im phi(t) / t dt = Im phi dlog t decays at both ends: as t sum_kl towards zero (sum_kl
  // is the mean of the difference), with |phi| towards infinity.
  constexpr double kLogStep = 0.01;
  constexpr double kNegligible = 1e-14;
  constexpr int kMaxSteps = 40'000;
  const double growth = std::exp(kLogStep);
  double t = 1e-12 / (sum_kl + std::sqrt(sum_kl));
  double integral = 0;
  for (int step = 0; step < kMaxSteps; ++step, t *= growth) {
    const Complex log_phi = LogCharacteristic(t, classes);
    if (log_phi.real() < std::log(kNegligible)) {
      break;
    }
    integral += std::exp(log_phi.real()) * std::sin(log_phi.imag()) * kLogStep;
  }
  return std::clamp(0.5 + integral / kPi, 0.5, 1.0);
}

}  // namespace splitveil
