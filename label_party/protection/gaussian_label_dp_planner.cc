#include "label_party/protection/gaussian_label_dp_planner.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"

namespace splitveil {

std::string GaussianLabelDpPlanner::name() const {
  const uint32_t draws = labels_->draws();
  const double first = labels_->sigma(0), last = labels_->sigma(draws - 1);
  return draws == 1      ? absl::StrFormat("gaussian_label_dp(sigma=%.4g)", first)
         : first == last ? absl::StrFormat("gaussian_label_dp(sigma=%.4g, draws=%d)", first, draws)
                         : absl::StrFormat("gaussian_label_dp(sigma=%.4g to %.4g, draws=%d)", first, last, draws);
}

absl::StatusOr<NoisePlan> GaussianLabelDpPlanner::Plan(const BatchFacts& batch, double) const {
  if (!labels_->drawn()) {
    return absl::FailedPreconditionError("gaussian_label_dp: expected training on its targets, found none drawn");
  }
  ProtectionReport report = DescribeBatch("gaussian_label_dp", batch.moments);
  report.sum_kl = labels_->sum_kl(batch.position.epoch);
  report.run_sum_kl = labels_->privacy().mu() * labels_->privacy().mu();
  report.sum_kl_so_far = labels_->sum_kl_so_far(batch.position.epoch);
  report.releases_repeat = labels_->releases_repeat();
  return NoisePlan{std::move(report), NoChange{}};
}

}  // namespace splitveil
