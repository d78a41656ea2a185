#include "label_party/protection/passthrough_methods.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "label_party/marvell/run_budget.h"

namespace splitveil {
namespace {

// Gradients of the labels themselves would disclose them, so a run that never drew its targets must not release.
absl::Status NoneDrawn(const char* method) {
  return absl::FailedPreconditionError(absl::StrCat(method, ": the model was not trained on this method's labels"));
}

}  // namespace

absl::StatusOr<ProtectionReport> NoProtection::Report(uint32_t) const {
  ProtectionReport report = EmptyReport("none");
  // No noise, rather than noise that is not known: the audit's likelihood-ratio attacks need the difference.
  report.power = report.lambda1_neg = report.lambda2_neg = report.lambda1_pos = report.lambda2_pos = 0;
  return report;
}

std::string LabelDpMethod::name() const { return absl::StrCat("label_dp(epsilon=", randomizer_->epsilon(), ")"); }

absl::StatusOr<ProtectionReport> LabelDpMethod::Report(uint32_t) const {
  if (!randomizer_->drawn()) {
    return NoneDrawn("label_dp");
  }
  const double rho = randomizer_->rho();
  ProtectionReport report = EmptyReport("label_dp");
  report.sum_kl = std::max(2 * (1 - 2 * rho) * randomizer_->epsilon(), SumKlForRunAuc(1 - rho));
  // All releases are made of one draw of flips: one or many disclose the same.
  report.run_sum_kl = report.sum_kl_so_far = report.sum_kl;
  report.releases_repeat = true;
  return report;
}

std::string GaussianLabelDpMethod::name() const {
  const uint32_t draws = labels_->draws();
  const double first = labels_->sigma(0), last = labels_->sigma(draws - 1);
  return draws == 1      ? absl::StrFormat("gaussian_label_dp(sigma=%.4g)", first)
         : first == last ? absl::StrFormat("gaussian_label_dp(sigma=%.4g, draws=%d)", first, draws)
                         : absl::StrFormat("gaussian_label_dp(sigma=%.4g to %.4g, draws=%d)", first, last, draws);
}

absl::StatusOr<ProtectionReport> GaussianLabelDpMethod::Report(uint32_t epoch) const {
  if (!labels_->drawn()) {
    return NoneDrawn("gaussian_label_dp");
  }
  ProtectionReport report = EmptyReport("gaussian_label_dp");
  report.sum_kl = labels_->sum_kl(epoch);
  report.run_sum_kl = labels_->privacy().mu() * labels_->privacy().mu();
  report.sum_kl_so_far = labels_->sum_kl_so_far(epoch);
  report.releases_repeat = labels_->releases_repeat();
  return report;
}

}  // namespace splitveil
