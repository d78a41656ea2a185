#include "label_party/noise/isotropic_noise.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

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

NoisePlan PlanIsotropicNoise(const BatchFacts& batch, const std::string& method, double total_power,
                             double max_sum_kl) {
  const double d = static_cast<double>(batch.gradients.cols());
  std::optional<ClassMoments> classes;  // Between which the divergence is.
  if (batch.moments.informative()) {
    classes = batch.moments;
  } else if (batch.running.available()) {
    classes = batch.running.Estimate();
  }
  double variance = total_power / d;
  if (classes && std::isfinite(max_sum_kl)) {
    variance = std::max(variance, LeastIsotropicVariance(*classes, max_sum_kl));
  }
  const auto rows = static_cast<size_t>(batch.gradients.rows());
  GaussianNoise noise{{}, std::vector<RowNoise>(rows, RowNoise{0, 0, std::sqrt(variance)})};
  if (classes) {
    return {ReportOf(method, *classes, {variance, variance, variance, variance}), std::move(noise)};
  }
  ProtectionReport report = EmptyReport(method);
  report.power = variance * d;
  report.lambda1_neg = report.lambda2_neg = report.lambda1_pos = report.lambda2_pos = variance;
  return {std::move(report), std::move(noise)};
}

}  // namespace splitveil
