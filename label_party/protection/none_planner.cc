#include "label_party/protection/none_planner.h"

#include <cmath>

#include "absl/status/status.h"

namespace splitveil {

absl::StatusOr<NoisePlan> NonePlanner::Plan(const BatchFacts& batch, double max_sum_kl) const {
  if (std::isfinite(max_sum_kl)) {
    return absl::FailedPreconditionError("none: expected no limit of sum_kl, found one");
  }
  return NoisePlan{
      batch.moments.informative() ? ReportOf("none", batch.moments, ClassNoise{}) : EmptyReport("none"),
      NoChange{}};
}

}  // namespace splitveil
