#include "label_party/noise/max_norm_planner.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "label_party/noise/isotropic_noise.h"

namespace splitveil {
namespace {

// Whether the method's own noise reaches the batch: two classes, and norms that differ by more than rounding.
bool PerturbsItself(const ClassMoments& moments) {
  constexpr double kRounding = 1e-12;
  return moments.negatives > 0 && moments.positives > 0 &&
         moments.mean_squared_norm < (1 - kRounding) * moments.max_squared_norm;
}

}  // namespace

absl::StatusOr<NoisePlan> MaxNormPlanner::Plan(const BatchFacts& batch, double max_sum_kl) const {
  const ClassMoments& moments = batch.moments;
  if (!PerturbsItself(moments)) {
    return PlanIsotropicNoise(batch, "max_norm+fallback", batch.running.FallbackScale(moments), max_sum_kl);
  }
  const double target = moments.max_squared_norm;
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

}  // namespace splitveil
