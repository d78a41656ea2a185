#include "tests/statistical/leakage/likelihood_ratio.h"

#include <algorithm>
#include <cmath>
#include <complex>

namespace splitveil {
namespace {

using Complex = std::complex<double>;

constexpr double kPi = 3.14159265358979323846;

// Variance of curvature x^2 + slope x for x ~ N(mean, variance).
double QuadraticVariance(double curvature, double slope, double mean, double variance) {
  const double tangent = 2 * curvature * mean + slope;
  return 2 * curvature * curvature * variance * variance + variance * tangent * tangent;
}

// log E[exp(theta (curvature x^2 + slope x))] for x ~ N(mean, variance).
Complex LogMoment(Complex theta, double curvature, double slope, double mean, double variance) {
  const Complex spread = 1.0 - 2.0 * theta * curvature * variance;
  const Complex shift =
      theta * (curvature * mean * mean + slope * mean) + 0.5 * theta * theta * slope * slope * variance;
  return shift / spread - 0.5 * std::log(spread);
}

// log p1/p0 up to a constant: curvature x^2 + slope x on the line of dg, in units of sqrt(along_neg) with the negative
// mean at 0 and the positive one at `distance`, plus across_curvature y^2 on each axis across it.
struct LogRatio {
  explicit LogRatio(const GaussianClasses& classes)
      : along(classes.along_pos / classes.along_neg),
        distance(std::sqrt(classes.dg_squared / classes.along_neg)),
        curvature((along - 1) / (2 * along)),
        slope(distance / along) {
    if (classes.d > 1 && classes.across_pos != classes.across_neg) {
      across = classes.across_pos / classes.across_neg;
      across_curvature = (across - 1) / (2 * across);
      axes_across = static_cast<double>(classes.d - 1);
    }
  }

  // Logarithm of the characteristic function of the difference between a positive's and an independent negative's.
  Complex LogCharacteristic(double t) const {
    const Complex theta(0, t);
    return LogMoment(theta, curvature, slope, distance, along) + LogMoment(-theta, curvature, slope, 0, 1) +
           axes_across *
               (LogMoment(theta, across_curvature, 0, 0, across) + LogMoment(-theta, across_curvature, 0, 0, 1));
  }

  // Standard deviation of that difference.
  double Spread() const {
    return std::sqrt(QuadraticVariance(curvature, slope, distance, along) + QuadraticVariance(curvature, slope, 0, 1) +
                     axes_across * (QuadraticVariance(across_curvature, 0, 0, across) +
                                    QuadraticVariance(across_curvature, 0, 0, 1)));
  }

  double along, distance, curvature, slope;
  double across = 1, across_curvature = 0, axes_across = 0;
};

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
  const LogRatio log_ratio(classes);
  // sum_kl is the mean of the difference. Far from zero in units of its spread it is hardly ever negative: by
  // Cantelli's inequality with probability below 1e-4, in truth far less.
  const double separation = sum_kl / log_ratio.Spread();
  if (!(separation < 100)) {
    return 1;
  }
  // Trapezoid rule in log t, where Im phi(t) / t dt = Im phi dlog t decays at both ends: as t sum_kl towards zero, with
  // |phi| towards infinity. The phase turns by about `separation` while |phi| decays, hence the finer step.
  const double log_step = 0.01 / std::max(1.0, separation / 4);
  constexpr double kNegligible = 1e-14;
  const double growth = std::exp(log_step);
  const int max_steps = static_cast<int>(400 / log_step);
  double t = 1e-12 / (sum_kl + std::sqrt(sum_kl));
  double integral = 0;
  for (int step = 0; step < max_steps; ++step, t *= growth) {
    const Complex log_phi = log_ratio.LogCharacteristic(t);
    if (log_phi.real() < std::log(kNegligible)) {
      break;
    }
    integral += std::exp(log_phi.real()) * std::sin(log_phi.imag()) * log_step;
  }
  return std::clamp(0.5 + integral / kPi, 0.5, 1.0);
}

}  // namespace splitveil
