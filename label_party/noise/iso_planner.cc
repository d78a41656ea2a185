#include "label_party/noise/iso_planner.h"

#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "label_party/noise/isotropic_noise.h"

namespace splitveil {

absl::StatusOr<IsoStrength> IsoStrengthOf(const v1::GradientProtection::Iso& config) {
  using Iso = v1::GradientProtection::Iso;
  if (config.strength_case() == Iso::STRENGTH_NOT_SET) {
    return absl::InvalidArgumentError("protection.iso: expected one of t, ratio, found none");
  }
  const bool by_ratio = config.strength_case() == Iso::kRatio;
  const char* field = by_ratio ? "ratio" : "t";
  const double value = by_ratio ? config.ratio() : config.t();
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

}  // namespace splitveil
