#include "common/leakage/bounds.h"

#include <algorithm>
#include <cmath>

namespace splitveil {

namespace {

double Logit(double share) { return std::log(share / (1 - share)); }

// The lower limit at 99.99% of an AUC whose lower limit at 97.5% is `low`.
double LowerLimit(double auc, double low) {
  if (auc <= 0) {
    return 0;
  }
  if (auc >= 1) {
    return std::pow(low, std::log(1e-4) / std::log(0.025));  // `low` is 0.025^(1/pairs): all pairs came out right.
  }
  constexpr double kQuantile9999 = 3.719016485455709, kQuantile975 = 1.959963984540054;  // Of the normal distribution.
  const double centre = Logit(auc);
  return 1 / (1 + std::exp((centre - Logit(low)) * kQuantile9999 / kQuantile975 - centre));
}

}  // namespace

double AucBound(double sum_kl) {
  if (!(sum_kl >= 0 && sum_kl < 4)) {
    return 1;
  }
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

double CertainAuc(double auc, double auc_low, double auc_high) {
  return std::max(LowerLimit(auc, auc_low), LowerLimit(1 - auc, 1 - auc_high));
}

}  // namespace splitveil
