#include "label_party/noise/noise_planner.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "common/leakage/bounds.h"

namespace splitveil {
namespace {

// Whether the method's own noise reaches the batch: two classes, and norms that differ by more than rounding.
bool PerturbsItself(const ClassMoments& moments) {
  constexpr double kRounding = 1e-12;
  return moments.negatives > 0 && moments.positives > 0 &&
         moments.mean_squared_norm < (1 - kRounding) * moments.max_squared_norm;
}

}  // namespace

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
  // Bisection. `enough` keeps the limit throughout, so that the result errs on the side of more noise.
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
  // The divergence between classes that the batch shows, or else those of the run's average.
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
  // Without classes nothing is known of the divergence: the report leaves it NaN, which every limit counts as exceeded.
  if (classes) {
    return {ReportOf(method, *classes, {variance, variance, variance, variance}), std::move(noise)};
  }
  ProtectionReport report = EmptyReport(method);
  report.power = variance * d;
  report.lambda1_neg = report.lambda2_neg = report.lambda1_pos = report.lambda2_pos = variance;
  return {std::move(report), std::move(noise)};
}

absl::StatusOr<IsoStrength> IsoStrengthOf(const v1::GradientProtection::Iso& config) {
  using Iso = v1::GradientProtection::Iso;
  if (config.strength_case() == Iso::STRENGTH_NOT_SET) {
    return absl::InvalidArgumentError("protection.iso: set t or ratio");
  }
  const bool by_ratio = config.strength_case() == Iso::kRatio;
  const char* field = by_ratio ? "ratio" : "t";
  const double value = by_ratio ? config.ratio() : config.t();
  // Variances scale with the square of the ratio.
  const double t = by_ratio ? value * value : value;
  if (!(value > 0 && t > 0 && std::isfinite(t))) {  // NaN, too, and what a double cannot square.
    return absl::InvalidArgumentError(
        absl::StrCat("protection.iso.", field, ": expected a positive finite number, found ", value));
  }
  return IsoStrength{t, absl::StrCat(field, "=", value)};
}

std::string IsoPlanner::name() const { return absl::StrCat("iso(", strength_.name, ")"); }

absl::StatusOr<NoisePlan> IsoPlanner::Plan(const BatchFacts& batch, double max_sum_kl) const {
  if (batch.moments.max_squared_norm > 0) {
    return PlanIsotropicNoise(batch, "iso", strength_.t * batch.moments.max_squared_norm, max_sum_kl);
  }
  return PlanIsotropicNoise(batch, "iso+fallback", strength_.t * batch.running.FallbackScale(batch.moments),
                            max_sum_kl);
}

absl::StatusOr<NoisePlan> MaxNormPlanner::Plan(const BatchFacts& batch, double max_sum_kl) const {
  const ClassMoments& moments = batch.moments;
  if (!PerturbsItself(moments)) {
    return PlanIsotropicNoise(batch, "max_norm+fallback", batch.running.FallbackScale(moments), max_sum_kl);
  }
  const double target = moments.max_squared_norm;
  // A row of zeros has no direction: noise along it would leave it zero, and so visible.
  const RowNoise zero_row_noise{0, 0, std::sqrt(target / static_cast<double>(batch.gradients.cols()))};
  GaussianNoise noise;
  noise.of_row.reserve(batch.squared_norms.size());
  for (const double squared_norm : batch.squared_norms) {
    noise.of_row.push_back(squared_norm == 0 ? zero_row_noise
                                             : RowNoise{std::sqrt(std::max(0.0, target / squared_norm - 1)), 0, 0});
  }
  ProtectionReport report = EmptyReport(kMaxNormMethod);
  report.u = moments.u;
  report.v = moments.v;
  report.g = moments.dg_squared;
  report.p = moments.p;
  report.power = target - moments.mean_squared_norm;
  return NoisePlan{std::move(report), std::move(noise)};
}

std::string SparsifyPlanner::name() const { return absl::StrCat("sparsify(keep=", keep_, ")"); }

absl::StatusOr<NoisePlan> SparsifyPlanner::Plan(const BatchFacts& batch, double) const {
  const absl::Span<const float> components = batch.gradients.values();
  std::vector<float> magnitudes(components.begin(), components.end());
  std::transform(magnitudes.begin(), magnitudes.end(), magnitudes.begin(), [](float x) { return std::abs(x); });
  // Over the whole batch, not row by row: a row may lose all of its components.
  const auto kept = static_cast<std::ptrdiff_t>(std::ceil(keep_ * static_cast<double>(magnitudes.size())));
  const auto least = magnitudes.begin() + (kept - 1);
  std::nth_element(magnitudes.begin(), least, magnitudes.end(), std::greater<>());
  // Before `least` stand the larger ones and some of its equals: that many of them are kept.
  const int64_t equals = 1 + std::count(magnitudes.begin(), least, *least);
  return NoisePlan{DescribeBatch("sparsify", batch.moments), KeepLargest{*least, equals}};
}

std::string DiscretizePlanner::name() const { return absl::StrCat("discretize(bins=", bins_, ")"); }

absl::StatusOr<NoisePlan> DiscretizePlanner::Plan(const BatchFacts& batch, double) const {
  const double n = static_cast<double>(batch.gradients.size());
  double mean = 0;
  for (float component : batch.gradients.values()) {
    mean += component / n;
  }
  double variance = 0;
  for (float component : batch.gradients.values()) {
    variance += (component - mean) * (component - mean) / n;
  }
  NoisePlan plan{DescribeBatch("discretize", batch.moments), NoChange{}};
  const double spacing = 4 * std::sqrt(variance) / (bins_ - 1);
  if (spacing > 0) {
    plan.change = RoundToBins{mean - 2 * std::sqrt(variance), spacing, bins_};
  }
  return plan;
}

}  // namespace splitveil
