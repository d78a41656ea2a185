#include "label_party/protection/gradient_protection.h"

#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/status/status_macros.h"
#include "label_party/marvell/marvell_planner.h"

namespace splitveil {
namespace {

// Fail closed: gradients of a model that never trained on protected labels disclose the labels themselves.
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
  ProtectionReport report = EmptyReport("label_dp");
  // All releases are made from one draw of flips: one or many disclose the same.
  report.sum_kl = report.sum_kl_so_far = SumKlForRunAuc(1 - randomizer_->rho());
  report.run_sum_kl = randomizer_->noise_sum_kl();
  // An account does not tell flips from the noise that they are made of, which a different run may have released.
  report.flip_epsilon = randomizer_->accounted().has_value() ? 0 : randomizer_->epsilon();
  // So that the accountant takes the largest, not the sum, of what the releases disclose.
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
  // All draws of the run, from its first release on: the plan is fixed, so the gate can compare it with the limit at
  // once.
  report.run_sum_kl = labels_->privacy().mu() * labels_->privacy().mu();
  report.sum_kl_so_far = labels_->sum_kl_so_far(epoch);
  report.releases_repeat = labels_->releases_repeat();
  return report;
}

namespace {

absl::Status NoNoiseKeeps(double max_sum_kl, const std::string& method) {
  return absl::FailedPreconditionError(
      absl::StrCat("protection: no noise of ", method, " is known to bring sum_kl down to ", max_sum_kl));
}

}  // namespace

GradientProtection::GradientProtection(std::unique_ptr<const NoisePlanner> planner,
                                       std::unique_ptr<SecureGaussian> gaussian, double regulariser_weight)
    : planner_(std::move(planner)), gaussian_(std::move(gaussian)), regulariser_weight_(regulariser_weight) {}

GradientProtection::GradientProtection(std::unique_ptr<const PassthroughMethod> method, double regulariser_weight)
    : passthrough_(std::move(method)), regulariser_weight_(regulariser_weight) {}

// In ledgers and reports: two runs with different strengths must not look alike.
std::string GradientProtection::name() const {
  const std::string method = changes_gradients() ? planner_->name() : passthrough_->name();
  return regulariser_weight_ == 0 ? method
                                  : absl::StrCat(method, "+distance_correlation(weight=", regulariser_weight_, ")");
}

absl::StatusOr<BatchFacts> GradientProtection::Describe(const LabelFreeBatch& batch,
                                                        const NoisePosition& position) const {
  // From v and p alone, so that no plan can depend on a label.
  SPLITVEIL_ASSIGN_OR_RETURN(ClassMoments moments, ExpectedMoments(batch));
  return BatchFacts{position, std::move(moments)};
}

absl::StatusOr<NoisePlan> GradientProtection::Plan(const BatchFacts& batch, double max_sum_kl) const {
  constexpr double kRounding = 1e-12;  // Solvers and report compute the divergence in different ways.
  // Aimed a hair below the limit, so that rounding does not refuse a plan that keeps it.
  absl::StatusOr<NoisePlan> plan = planner_->Plan(batch, (1 - kRounding) * max_sum_kl);
  // The regulariser makes a row depend on the labels of other rows, which the divergence does not count.
  if (plan.ok() && regulariser_weight_ > 0) {
    plan->report.sum_kl = std::numeric_limits<double>::quiet_NaN();
  }
  // Written so that NaN fails: a divergence that is not known keeps no limit.
  if (max_sum_kl < kAsConfigured && !(plan.ok() && plan->report.sum_kl <= max_sum_kl)) {
    return NoNoiseKeeps(max_sum_kl, name());
  }
  if (plan.ok()) {
    plan->max_sum_kl = max_sum_kl;
  }
  return plan;
}

absl::Status GradientProtection::Apply(const NoisePlan& plan, const LabelledGradients& batch,
                                       const NoisePosition& position, Matrix& out) {
  const absl::Status status = ApplyPlan(plan, batch, position, gaussian_.get(), out);
  // A limit that needs more noise than a float holds is a limit that cannot be kept: the guard then freezes the bottom
  // model. Without a limit it is an error of the run.
  return status.ok() || plan.max_sum_kl == kAsConfigured ? status : NoNoiseKeeps(plan.max_sum_kl, name());
}

absl::StatusOr<ProtectionReport> GradientProtection::PerturbWithin(const LabelFreeBatch& batch,
                                                                   const LabelledGradients& gradients,
                                                                   const NoisePosition& position, double max_sum_kl,
                                                                   Matrix& out) {
  out = Matrix();  // Also on every error.
  if (!changes_gradients()) {
    SPLITVEIL_ASSIGN_OR_RETURN(ProtectionReport stated, Report(position.epoch));
    // A method without noise cannot be strengthened: the caller must freeze or halt.
    if (max_sum_kl < kAsConfigured && !(stated.sum_kl <= max_sum_kl)) {
      return NoNoiseKeeps(max_sum_kl, name());
    }
    out = Matrix(gradients.gradients);
    return stated;
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const BatchFacts facts, Describe(batch, position));
  SPLITVEIL_ASSIGN_OR_RETURN(NoisePlan plan, Plan(facts, max_sum_kl));
  SPLITVEIL_RETURN_IF_ERROR(Apply(plan, gradients, position, out));
  return std::move(plan.report);
}

}  // namespace splitveil
