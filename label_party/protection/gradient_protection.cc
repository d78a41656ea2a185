#include "label_party/protection/gradient_protection.h"

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

absl::Status GradientProtection::PrimeMoments(ConstMatrixView gradients, absl::Span<const uint8_t> labels) {
  if (keeps_moments()) {
    SPLITVEIL_ASSIGN_OR_RETURN(const ClassMoments moments, ComputeClassMoments(gradients, labels));
    running_.PrimeMoments(moments);
  }
  return absl::OkStatus();
}

std::optional<ClassMoments> GradientProtection::Moments() const {
  // On a copy: the latest batch joins the averages when the next one comes.
  RunningMoments up_to_latest = running_;
  up_to_latest.Update(latest_);
  return up_to_latest.average();
}

void GradientProtection::RestoreMoments(const ClassMoments& moments) {
  if (keeps_moments()) {
    running_.RestoreMoments(moments);
  }
}

absl::StatusOr<BatchFacts> GradientProtection::Describe(ConstMatrixView gradients, absl::Span<const uint8_t> labels,
                                                        const NoisePosition& position) {
  BatchFacts facts;
  SPLITVEIL_ASSIGN_OR_RETURN(facts.moments, ComputeClassMoments(gradients, labels, &facts.squared_norms));
  if (keeps_moments()) {
    // Averages are of the batches before this one: a batch planned twice, as when noise is raised, counts once.
    if (position.epoch != latest_position_.epoch || position.batch != latest_position_.batch) {
      running_.Update(latest_);
      latest_position_ = position;
    }
    latest_ = facts.moments;
  }
  facts.gradients = gradients;
  facts.labels = labels;
  facts.position = position;
  facts.running = running_;
  return facts;
}

absl::StatusOr<NoisePlan> GradientProtection::Plan(const BatchFacts& batch, double max_sum_kl) const {
  constexpr double kRounding = 1e-12;  // The solvers' divergence and the report's are computed in different ways.
  absl::StatusOr<NoisePlan> plan = planner_->Plan(batch, (1 - kRounding) * max_sum_kl);
  // Written so that NaN fails: a divergence that is not known keeps no limit.
  if (max_sum_kl < kAsConfigured && !(plan.ok() && plan->report.sum_kl <= max_sum_kl)) {
    return NoNoiseKeeps(max_sum_kl, name());
  }
  if (plan.ok()) {
    plan->max_sum_kl = max_sum_kl;
  }
  return plan;
}

absl::Status GradientProtection::Apply(const NoisePlan& plan, const BatchFacts& batch, Matrix& out) {
  absl::Status status = ApplyPlan(plan, batch.gradients, batch.position, gaussian_.get(), out);
  // A batch that was not released must not move the averages.
  if (!status.ok()) {
    latest_ = ClassMoments();
  }
  return status.ok() || plan.max_sum_kl == kAsConfigured ? status : NoNoiseKeeps(plan.max_sum_kl, name());
}

absl::StatusOr<ProtectionReport> GradientProtection::PerturbWithin(ConstMatrixView gradients,
                                                                   absl::Span<const uint8_t> labels,
                                                                   const NoisePosition& position, double max_sum_kl,
                                                                   Matrix& out) {
  const auto perturb = [&]() -> absl::StatusOr<ProtectionReport> {
    if (!changes_gradients()) {
      SPLITVEIL_ASSIGN_OR_RETURN(ProtectionReport stated, Report(position.epoch));
      if (max_sum_kl < kAsConfigured && !(stated.sum_kl <= max_sum_kl)) {
        return NoNoiseKeeps(max_sum_kl, name());
      }
      out = Matrix(gradients);
      return stated;
    }
    SPLITVEIL_ASSIGN_OR_RETURN(const BatchFacts batch, Describe(gradients, labels, position));
    SPLITVEIL_ASSIGN_OR_RETURN(NoisePlan plan, Plan(batch, max_sum_kl));
    SPLITVEIL_RETURN_IF_ERROR(Apply(plan, batch, out));
    return std::move(plan.report);
  };
  absl::StatusOr<ProtectionReport> report = perturb();
  // Nothing half perturbed is handed out.
  if (!report.ok()) {
    out = Matrix();
  }
  return report;
}

}  // namespace splitveil
