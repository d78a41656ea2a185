#include "common/leakage/bounds.h"

#include <algorithm>
#include <cmath>

namespace splitveil {

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

bool ExceedsGaussianAucBound(double auc_low, double auc_high, double gaussian_auc_bound) {
  return auc_low > gaussian_auc_bound + kBoundTolerance || 1 - auc_high > gaussian_auc_bound + kBoundTolerance;
}

}  // namespace splitveil
