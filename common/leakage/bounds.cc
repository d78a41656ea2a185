#include "common/leakage/bounds.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace splitveil {
namespace {

// (x-y)^2 / (x y), by two ratios: the product of two small or two large variances may leave the range of a double.
double SpreadDivergence(double x, double y) {
  if (x == y) {
    return 0;
  }
  return ((x - y) / x) * ((x - y) / y);
}

double Ratio(double numerator, double denominator) { return numerator == 0 ? 0 : numerator / denominator; }

}  // namespace

double SumKl(const GaussianClasses& classes) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const bool valid = classes.d >= 1 && classes.dg_squared >= 0 && classes.along_neg >= 0 && classes.along_pos >= 0 &&
                     classes.across_neg >= 0 && classes.across_pos >= 0;
  if (!valid) {
    return kInfinity;
  }
  // Halved term by term: twice the sum may leave the range of a double.
  double sum_kl = SpreadDivergence(classes.along_neg, classes.along_pos) / 2 +
                  Ratio(classes.dg_squared, classes.along_neg) / 2 + Ratio(classes.dg_squared, classes.along_pos) / 2;
  if (classes.d > 1) {
    sum_kl += static_cast<double>(classes.d - 1) / 2 * SpreadDivergence(classes.across_neg, classes.across_pos);
  }
  // inf - inf or inf / inf: the inputs are beyond what can be told apart.
  return sum_kl >= 0 ? sum_kl : kInfinity;  // NOLINT(bugprone-narrowing-conversions): a double, which LLVM 14 misses.
}

double AucBound(double sum_kl) {
  if (!(sum_kl >= 0 && sum_kl < 4)) {
    return 1;
  }
  // Theorem 1's parabola reaches 1 at sum_kl = 4 and would fall beyond.
  return 0.5 + std::sqrt(sum_kl) / 2 - sum_kl / 8;
}

double DetectionErrorBound(double sum_kl) {
  if (!(sum_kl >= 0)) {
    return 0;
  }
  return std::max(0.0, 0.5 - std::sqrt(sum_kl) / 4);
}

double GaussianAucBound(double sum_kl) {
  if (!(sum_kl >= 0)) {
    return 1;
  }
  return 0.5 * std::erfc(-std::sqrt(sum_kl) / 2);  // Phi(x) = erfc(-x / sqrt(2)) / 2 at x = sqrt(sum_kl / 2).
}

}  // namespace splitveil
