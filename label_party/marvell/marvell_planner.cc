#include "label_party/marvell/marvell_planner.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"

#include "common/status/status_macros.h"
#include "label_party/noise/isotropic_noise.h"

namespace splitveil {
namespace {

// Whether noise of these variances would change any row of the batch, beyond the rounding of its float components.
bool Reaches(const ClassMoments& batch, const MarvellSolution& noise) {
  constexpr double kFloatResolutionSquared = 0x1p-46;
  const double largest =
      std::max(batch.negatives > 0 ? noise.lambda1_neg : 0, batch.positives > 0 ? noise.lambda1_pos : 0);
  return largest > kFloatResolutionSquared * batch.max_squared_norm;
}

std::vector<float> UnitVector(const ClassMoments& moments) {
  const double norm = std::sqrt(moments.dg_squared);
  std::vector<float> direction(moments.mean_difference.size());
  std::transform(moments.mean_difference.begin(), moments.mean_difference.end(), direction.begin(),
                 [norm](double component) { return static_cast<float>(component / norm); });
  return direction;
}

RowNoise ClassNoise(double lambda1, double lambda2) {
  return {0, std::sqrt(std::max(0.0, lambda1 - lambda2)), std::sqrt(lambda2)};
}

// `noise` between classes of these moments, on every row that of its class.
NoisePlan PlanClassNoise(const BatchFacts& batch, const std::string& method, const ClassMoments& moments,
                         const MarvellSolution& noise) {
  const RowNoise of_class[kClasses] = {ClassNoise(noise.lambda1_neg, noise.lambda2_neg),
                                       ClassNoise(noise.lambda1_pos, noise.lambda2_pos)};
  GaussianNoise rows{UnitVector(moments), {}};
  rows.of_row.reserve(batch.labels.size());
  for (uint8_t label : batch.labels) {
    rows.of_row.push_back(of_class[label]);
  }
  return {ReportOf(method, moments, {noise.lambda1_neg, noise.lambda2_neg, noise.lambda1_pos, noise.lambda2_pos}),
          std::move(rows)};
}

}  // namespace

std::string MarvellPlanner::name() const { return absl::StrCat("marvell(", strength_.name, ")"); }

absl::StatusOr<NoisePlan> MarvellPlanner::Plan(const BatchFacts& batch, double max_sum_kl) const {
  if (!batch.moments.informative()) {
    return PlanFallback(batch, max_sum_kl);
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const MarvellSolution noise,
                             SolveMarvellFor(strength_, batch.position.epoch, max_sum_kl, batch.moments));
  if (!Reaches(batch.moments, noise)) {
    return PlanFallback(batch, max_sum_kl);
  }
  return PlanClassNoise(batch, "marvell", batch.moments, noise);
}

absl::StatusOr<NoisePlan> MarvellPlanner::PlanFallback(const BatchFacts& batch, double max_sum_kl) const {
  const std::string method = "marvell+fallback";
  if (batch.running.available()) {
    const ClassMoments estimate = batch.running.Estimate();
    SPLITVEIL_ASSIGN_OR_RETURN(const MarvellSolution noise,
                               SolveMarvellFor(strength_, batch.position.epoch, max_sum_kl, estimate));
    if (Reaches(batch.moments, noise)) {
      return PlanClassNoise(batch, method, estimate, noise);
    }
  }
  const double s = strength_.sum_kls.empty() ? strength_.s : 1 / strength_.SumKlOf(batch.position.epoch);
  return PlanIsotropicNoise(batch, method, s * batch.running.FallbackScale(batch.moments), max_sum_kl);
}

}  // namespace splitveil
