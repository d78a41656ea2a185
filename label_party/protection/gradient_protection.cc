#include "label_party/protection/gradient_protection.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/status/status_macros.h"

namespace splitveil {
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

std::string GradientProtection::name() const {
  const std::string method = changes_gradients() ? planner_->name() : passthrough_->name();
  return regulariser_weight_ == 0 ? method
                                  : absl::StrCat(method, "+distance_correlation(weight=", regulariser_weight_, ")");
}

absl::StatusOr<BatchFacts> GradientProtection::Describe(const LabelFreeBatch& batch,
                                                        const NoisePosition& position) const {
  SPLITVEIL_ASSIGN_OR_RETURN(ClassMoments moments, ExpectedMoments(batch));
  return BatchFacts{position, std::move(moments)};
}

absl::StatusOr<NoisePlan> GradientProtection::Plan(const BatchFacts& batch, double max_sum_kl) const {
  constexpr double kRounding = 1e-12;  // The solvers' divergence and the report's are computed in different ways.
  absl::StatusOr<NoisePlan> plan = planner_->Plan(batch, (1 - kRounding) * max_sum_kl);
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
  return status.ok() || plan.max_sum_kl == kAsConfigured ? status : NoNoiseKeeps(plan.max_sum_kl, name());
}

absl::StatusOr<ProtectionReport> GradientProtection::PerturbWithin(const LabelFreeBatch& batch,
                                                                   const LabelledGradients& gradients,
                                                                   const NoisePosition& position, double max_sum_kl,
                                                                   Matrix& out) {
  out = Matrix();  // Also on every error.
  if (!changes_gradients()) {
    SPLITVEIL_ASSIGN_OR_RETURN(ProtectionReport stated, Report(position.epoch));
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
