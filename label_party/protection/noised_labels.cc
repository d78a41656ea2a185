#include "label_party/protection/noised_labels.h"

#include <cmath>

#include "absl/strings/str_cat.h"

#include "common/crypto/sha256.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

// Of the configured strength.
absl::StatusOr<GaussianPrivacy> PrivacyOf(const v1::GradientProtection::GaussianLabelDp& config) {
  switch (config.strength_case()) {
    case v1::GradientProtection::GaussianLabelDp::kSigma:
      return GaussianPrivacy::FromSigma(config.sigma());
    case v1::GradientProtection::GaussianLabelDp::kMu:
      return GaussianPrivacy::FromMu(config.mu());
    case v1::GradientProtection::GaussianLabelDp::kBudget:
      return GaussianPrivacy::FromEpsilonDelta(config.budget().epsilon(), config.budget().delta());
    case v1::GradientProtection::GaussianLabelDp::kMaxRunAucBound:
      return GaussianPrivacy::FromAucBound(config.max_run_auc_bound());
    case v1::GradientProtection::GaussianLabelDp::STRENGTH_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("expected one of sigma, mu, budget, max_run_auc_bound, found none of them");
}

absl::StatusOr<uint32_t> SigmaUnitsOf(const v1::GradientProtection::GaussianLabelDp& config) {
  SPLITVEIL_ASSIGN_OR_RETURN(const GaussianPrivacy privacy, PrivacyOf(config));
  return SigmaUnits(1 / privacy.mu());
}

}  // namespace

absl::StatusOr<std::shared_ptr<NoisedLabels>> NoisedLabels::Create(
    const v1::GradientProtection::GaussianLabelDp& config, const SecretKey& key) {
  const absl::StatusOr<uint32_t> units = SigmaUnitsOf(config);
  if (!units.ok()) {
    return absl::Status(units.status().code(),
                        absl::StrCat("gradient_protection.gaussian_label_dp: ", units.status().message()));
  }
  SPLITVEIL_ASSIGN_OR_RETURN(LabelNoise noise, LabelNoise::Create(key, Sha256("labels of one run"), {*units}));
  SPLITVEIL_ASSIGN_OR_RETURN(const GaussianPrivacy privacy, GaussianPrivacy::FromSigma(noise.sigma(0)));
  return std::shared_ptr<NoisedLabels>(new NoisedLabels(std::move(noise), privacy, config.likelihood_correction()));
}

std::vector<float> NoisedLabels::TrainingTargets(absl::Span<const uint8_t> labels) {
  drawn_ = true;
  std::vector<float> targets(labels.size());
  for (size_t j = 0; j < labels.size(); ++j) {
    const int64_t noised = labels[j] * kLabelGridUnit + noise_.At(NoiseRow::OfIndex(j), /*release=*/0);
    targets[j] = std::ldexp(static_cast<float>(noised), -kLabelGridBits);
  }
  return targets;
}

}  // namespace splitveil
