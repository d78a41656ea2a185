#include "label_party/protection/gaussian_label_dp_planner.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"

namespace splitveil {

std::string GaussianLabelDpPlanner::name() const {
  return absl::StrFormat("gaussian_label_dp(sigma=%.4g)", labels_->sigma());
}

absl::StatusOr<NoisePlan> GaussianLabelDpPlanner::Plan(const BatchFacts& batch, double) const {
  if (!labels_->drawn()) {
    return absl::FailedPreconditionError("gaussian_label_dp: expected training on its targets, found none drawn");
  }
  ProtectionReport report = DescribeBatch("gaussian_label_dp", batch.moments);
  report.sum_kl = labels_->privacy().mu() * labels_->privacy().mu();
  report.run_sum_kl = report.sum_kl;
  return NoisePlan{std::move(report), NoChange{}};
}

}  // namespace splitveil
