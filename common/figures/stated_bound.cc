#include "common/figures/stated_bound.h"

#include <cmath>
#include <utility>

#include "absl/strings/match.h"

#include "common/leakage/bounds.h"
#include "common/leakage/summary.h"

namespace splitveil {

bool Promises(const std::optional<double>& bound) { return bound.has_value() && *bound < kNoPromise; }

bool IsBoundProved(absl::string_view protection) { return absl::StartsWith(protection, "gaussian_label_dp"); }

double StepAucBound(double auc_bound, double sum_kl) {
  return std::isnan(sum_kl) ? auc_bound : std::fmin(auc_bound, GaussianAucBound(sum_kl));
}

std::optional<double> StepAucBoundP95(std::vector<double> of_steps) {
  if (of_steps.empty()) {
    return std::nullopt;
  }
  for (double& bound : of_steps) {
    bound = std::isnan(bound) ? 1 : bound;
  }
  return NearestRankQuantile(std::move(of_steps), 0.95);
}

}  // namespace splitveil
