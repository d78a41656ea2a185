#include "common/leakage/gaussian_divergence.h"

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
  double doubled = SpreadDivergence(classes.along_neg, classes.along_pos) +
                   Ratio(classes.dg_squared, classes.along_neg) + Ratio(classes.dg_squared, classes.along_pos);
  if (classes.d > 1) {
    doubled += static_cast<double>(classes.d - 1) * SpreadDivergence(classes.across_neg, classes.across_pos);
  }
  // inf - inf or inf / inf: the inputs are beyond what can be told apart.
  return doubled >= 0 ? doubled / 2 : kInfinity;
}

}  // namespace splitveil
