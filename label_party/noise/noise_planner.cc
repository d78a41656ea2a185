#include "label_party/noise/noise_planner.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "common/leakage/bounds.h"

namespace splitveil {
namespace {

// Whether the method changes anything: lengths must differ by more than the rounding of floats.
bool EvensLengths(const ClassMoments& moments) {
  constexpr double kRounding = 1e-6;
  return moments.mean_squared_norm < (1 - kRounding) * moments.max_squared_norm;
}

}  // namespace

double LeastIsotropicVariance(const ClassMoments& moments, double max_sum_kl) {
  const int64_t d = static_cast<int64_t>(moments.mean_difference.size());
  // Noise alike in all directions adds to the variance of both classes in every one of them.
  const auto keeps = [&](double variance) {
    const double negative = moments.u + variance;
    const double positive = moments.v + variance;
    return SumKl({d, moments.dg_squared, negative, negative, positive, positive}) <= max_sum_kl;
  };
  if (keeps(0)) {
    return 0;
  }
  // sum_kl <= d (u-v)^2 / (2 x^2) + g / x at variance x, and so kept if each term takes half of the limit.
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
  // More than configured if a limit asks for it, never less.
  double variance = total_power / batch.cols();
  if (std::isfinite(max_sum_kl)) {
    variance = std::max(variance, LeastIsotropicVariance(batch.moments, max_sum_kl));
  }
  const RowNoise of_row{0, 0, std::sqrt(variance)};
  return {ReportOf(method, batch.moments, {variance, variance, variance, variance}), GaussianNoise{{}, of_row, of_row}};
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
  if (!(value > 0 && t > 0 && std::isfinite(t))) {  // Refuses NaN, too, and a ratio whose square is no double.
    return absl::InvalidArgumentError(
        absl::StrCat("protection.iso.", field, ": expected a positive finite number, found ", value));
  }
  return IsoStrength{t, absl::StrCat(field, "=", value)};
}

std::string IsoPlanner::name() const { return absl::StrCat("iso(", strength_.name, ")"); }

absl::StatusOr<NoisePlan> IsoPlanner::Plan(const BatchFacts& batch, double max_sum_kl) const {
  // A batch without any gradient still gets noise, or it would be recognised by having none.
  const char* const method = batch.moments.max_squared_norm > 0 ? "iso" : "iso+fallback";
  return PlanIsotropicNoise(batch, method, strength_.t * batch.moments.Scale(), max_sum_kl);
}

absl::StatusOr<NoisePlan> MaxNormPlanner::Plan(const BatchFacts& batch, double max_sum_kl) const {
  const ClassMoments& moments = batch.moments;
  // If all rows are of one length already, max_norm would add nothing and send the batch in the clear.
  if (!EvensLengths(moments)) {
    return PlanIsotropicNoise(batch, "max_norm+fallback", moments.Scale(), max_sum_kl);
  }
  // No divergence is stated: the direction of a gradient stays visible.
  ProtectionReport report = DescribeBatch(kMaxNormMethod, moments);
  report.power = moments.max_squared_norm - moments.mean_squared_norm;
  return NoisePlan{std::move(report), EvenLengths{std::sqrt(moments.max_squared_norm)}};
}

std::string SparsifyPlanner::name() const { return absl::StrCat("sparsify(keep=", keep_, ")"); }

absl::StatusOr<NoisePlan> SparsifyPlanner::Plan(const BatchFacts& batch, double) const {
  // Neither adds noise: what is kept is kept exactly, so no bound is claimed.
  return NoisePlan{DescribeBatch("sparsify", batch.moments), KeepLargest{keep_}};
}

std::string DiscretizePlanner::name() const { return absl::StrCat("discretize(bins=", bins_, ")"); }

absl::StatusOr<NoisePlan> DiscretizePlanner::Plan(const BatchFacts& batch, double) const {
  return NoisePlan{DescribeBatch("discretize", batch.moments), RoundToBins{bins_}};
}

}  // namespace splitveil
