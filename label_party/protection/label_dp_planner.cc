#include "label_party/protection/label_dp_planner.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "label_party/marvell/run_budget.h"

namespace splitveil {

std::string LabelDpPlanner::name() const { return absl::StrCat("label_dp(epsilon=", randomizer_->epsilon(), ")"); }

absl::StatusOr<NoisePlan> LabelDpPlanner::Plan(const BatchFacts& batch, double) const {
  if (!randomizer_->drawn()) {
    return absl::FailedPreconditionError("label_dp: expected training on its targets, found none drawn");
  }
  const double rho = randomizer_->rho();
  ProtectionReport report = DescribeBatch("label_dp", batch.moments);
  report.sum_kl = std::max(2 * (1 - 2 * rho) * randomizer_->epsilon(), SumKlForRunAuc(1 - rho));
  report.run_sum_kl = report.sum_kl_so_far = report.sum_kl;
  report.releases_repeat = true;
  return NoisePlan{std::move(report), NoChange{}};
}

}  // namespace splitveil
