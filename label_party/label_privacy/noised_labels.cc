#include "label_party/label_privacy/noised_labels.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

#include "common/crypto/sha256.h"
#include "common/privacy/label_noise_plan.h"
#include "common/status/status_macros.h"
#include "label_party/label_privacy/task_label.h"

namespace splitveil {
namespace {

absl::StatusOr<LabelNoiseStrength> StrengthOf(const v1::GradientProtection::GaussianLabelDp& config) {
  switch (config.strength_case()) {
    case v1::GradientProtection::GaussianLabelDp::kSigma:
      return FirstReleaseSigma{config.sigma()};
    case v1::GradientProtection::GaussianLabelDp::kMu:
      return RunMu{config.mu()};
    case v1::GradientProtection::GaussianLabelDp::kBudget:
      return RunEpsilonDelta{config.budget().epsilon(), config.budget().delta()};
    case v1::GradientProtection::GaussianLabelDp::kMaxRunAucBound:
      return RunAucBound{config.max_run_auc_bound()};
    case v1::GradientProtection::GaussianLabelDp::STRENGTH_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("expected one of sigma, mu, budget, max_run_auc_bound, found none of them");
}

// One release.
absl::StatusOr<LabelNoisePlan> PlanOf(const v1::GradientProtection::GaussianLabelDp& config, const Task& task) {
  LabelNoisePlanOptions options;
  options.label_kind = LabelKindOf(task);
  SPLITVEIL_ASSIGN_OR_RETURN(options.strength, StrengthOf(config));
  return PlanLabelNoise(options);
}

// The same, with the field in errors.
absl::StatusOr<LabelNoisePlan> PlanOfField(const v1::GradientProtection::GaussianLabelDp& config, const Task& task) {
  absl::StatusOr<LabelNoisePlan> plan = PlanOf(config, task);
  if (plan.ok()) {
    return plan;
  }
  return absl::Status(plan.status().code(), absl::StrCat("protection.gaussian_label_dp: ", plan.status().message()));
}

}  // namespace

absl::StatusOr<uint32_t> PlannedSigmaUnits(const v1::GradientProtection::GaussianLabelDp& config, const Task& task) {
  SPLITVEIL_ASSIGN_OR_RETURN(const LabelNoisePlan plan, PlanOfField(config, task));
  return plan.sigma_units.front();
}

absl::StatusOr<std::shared_ptr<NoisedLabels>> NoisedLabels::Create(
    const v1::GradientProtection::GaussianLabelDp& config, const Task& task, const SecretKey& key) {
  SPLITVEIL_ASSIGN_OR_RETURN(const LabelNoisePlan plan, PlanOfField(config, task));
  SPLITVEIL_ASSIGN_OR_RETURN(LabelNoise noise, LabelNoise::Create(key, Sha256("labels of one run"), plan.sigma_units));
  return std::shared_ptr<NoisedLabels>(
      new NoisedLabels(task, std::move(noise), plan.run, config.likelihood_correction(), nullptr));
}

absl::StatusOr<std::shared_ptr<NoisedLabels>> NoisedLabels::Create(
    const v1::GradientProtection::GaussianLabelDp& config, const Task& task, std::unique_ptr<PrivacyAccount> account) {
  SPLITVEIL_ASSIGN_OR_RETURN(const LabelNoisePlan plan, PlanOfField(config, task));
  SPLITVEIL_ASSIGN_OR_RETURN(LabelNoise noise, account->Noise(plan.sigma_units.front()));
  return std::shared_ptr<NoisedLabels>(
      new NoisedLabels(task, std::move(noise), plan.run, config.likelihood_correction(), std::move(account)));
}

absl::StatusOr<std::vector<float>> NoisedLabels::TrainingTargets(absl::Span<const NoiseRow> examples,
                                                                 absl::Span<const float> labels) {
  if (account_ != nullptr) {
    SPLITVEIL_ASSIGN_OR_RETURN(const LabelPrivacy lifetime,
                               account_->Debit(examples, LabelNumbers(task_, labels), noise_.sigma_units(0)));
    const double run_sum_kl = privacy_.mu() * privacy_.mu();
    accounted_ = {account_->id(), std::max(0.0, lifetime.mu() * lifetime.mu() - run_sum_kl), run_sum_kl};
  }
  drawn_ = true;
  std::vector<float> targets;
  targets.reserve(labels.size() * static_cast<size_t>(task_.outputs()));
  for (size_t j = 0; j < labels.size(); ++j) {
    for (int64_t k = 0; k < task_.outputs(); ++k) {
      const int64_t noised =
          LabelComponent(task_, labels[j], k) + noise_.At(examples[j], /*release=*/0, static_cast<uint32_t>(k));
      targets.push_back(std::ldexp(static_cast<float>(noised), -kLabelGridBits));
    }
  }
  return targets;
}

}  // namespace splitveil
