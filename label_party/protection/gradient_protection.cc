#include "label_party/protection/gradient_protection.h"

#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "common/status/status_macros.h"
#include "label_party/protection/discretize_protection.h"
#include "label_party/protection/iso_protection.h"
#include "label_party/protection/label_dp_protection.h"
#include "label_party/protection/marvell_protection.h"
#include "label_party/protection/max_norm_protection.h"
#include "label_party/protection/no_protection.h"
#include "label_party/protection/sparsify_protection.h"

namespace splitveil {
namespace {

absl::Status Unfit(const char* field, const char* expected, double found) {
  return absl::InvalidArgumentError(
      absl::StrCat("gradient_protection.", field, ": expected ", expected, ", found ", found));
}

// Beside a method that knows nothing of it: the trainer adds the regulariser's gradients before they are perturbed.
class RegularisedProtection final : public GradientProtection {
 public:
  RegularisedProtection(std::unique_ptr<GradientProtection> method, double weight)
      : method_(std::move(method)), weight_(weight) {}

  std::vector<float> TrainingTargets(absl::Span<const uint8_t> labels) override {
    return method_->TrainingTargets(labels);
  }
  absl::Status PrimeMoments(ConstMatrixView gradients, absl::Span<const uint8_t> labels) override {
    return method_->PrimeMoments(gradients, labels);
  }
  std::optional<ClassMoments> Moments() const override { return method_->Moments(); }
  void RestoreMoments(const ClassMoments& moments) override { method_->RestoreMoments(moments); }
  absl::StatusOr<ProtectionReport> PerturbWithin(ConstMatrixView gradients, absl::Span<const uint8_t> labels,
                                                 const NoisePosition& position, double max_sum_kl,
                                                 Matrix& out) override {
    return method_->PerturbWithin(gradients, labels, position, max_sum_kl, out);
  }
  std::string name() const override {
    return absl::StrCat(method_->name(), "+distance_correlation(weight=", weight_, ")");
  }

 private:
  const std::unique_ptr<GradientProtection> method_;
  const double weight_;
};

// Each checks its setting, written so that NaN fails.
absl::StatusOr<std::unique_ptr<GradientProtection>> CreateNoiseless(const v1::GradientProtection& config) {
  switch (config.method_case()) {
    case v1::GradientProtection::kNone:
      return std::make_unique<NoProtection>();
    case v1::GradientProtection::kLabelDp:
      if (!(config.label_dp().epsilon() > 0 && config.label_dp().epsilon() <= LabelDpProtection::kMaxEpsilon)) {
        return Unfit("label_dp.epsilon", "a positive number up to 30", config.label_dp().epsilon());
      }
      return std::make_unique<LabelDpProtection>(config.label_dp().epsilon(), SecretKey::Generate());
    case v1::GradientProtection::kSparsify:
      if (!(config.sparsify().keep() > 0 && config.sparsify().keep() < 1)) {
        return Unfit("sparsify.keep", "a share above 0 and below 1", config.sparsify().keep());
      }
      return std::make_unique<SparsifyProtection>(config.sparsify().keep());
    case v1::GradientProtection::kDiscretize:
      if (config.discretize().bins() < 2) {
        return Unfit("discretize.bins", "at least 2", config.discretize().bins());
      }
      return std::make_unique<DiscretizeProtection>(config.discretize().bins());
    default:
      return absl::InvalidArgumentError(
          "gradient_protection: expected one of none, iso, max_norm, marvell, label_dp, sparsify, discretize, "
          "found none of them");
  }
}

absl::StatusOr<std::unique_ptr<GradientProtection>> CreateNoisy(const v1::GradientProtection& config,
                                                                std::unique_ptr<SecureGaussian> noise) {
  if (noise == nullptr) {
    return absl::InvalidArgumentError("gradient_protection: expected a source of noise, found none");
  }
  if (config.has_iso()) {
    if (!(config.iso().t() > 0 && std::isfinite(config.iso().t()))) {
      return Unfit("iso.t", "a positive finite number", config.iso().t());
    }
    return std::make_unique<IsoProtection>(config.iso().t(), std::move(noise));
  }
  if (config.has_max_norm()) {
    return std::make_unique<MaxNormProtection>(std::move(noise));
  }
  SPLITVEIL_ASSIGN_OR_RETURN(MarvellStrength strength, MarvellStrengthOf(config.marvell()));
  return std::make_unique<MarvellProtection>(std::move(strength), std::move(noise));
}

}  // namespace

bool CanRaiseNoise(const v1::GradientProtection& config) { return config.has_iso() || config.has_marvell(); }

absl::StatusOr<std::unique_ptr<GradientProtection>> GradientProtection::Create(const v1::GradientProtection& config,
                                                                               std::unique_ptr<SecureGaussian> noise) {
  const bool noisy = config.has_iso() || config.has_max_norm() || config.has_marvell();
  absl::StatusOr<std::unique_ptr<GradientProtection>> method =
      noisy ? CreateNoisy(config, std::move(noise)) : CreateNoiseless(config);
  if (!method.ok() || !config.has_distance_correlation()) {
    return method;
  }
  const double weight = config.distance_correlation().weight();
  if (!(weight > 0 && std::isfinite(weight))) {
    return Unfit("distance_correlation.weight", "a positive finite number", weight);
  }
  return std::make_unique<RegularisedProtection>(*std::move(method), weight);
}

std::vector<float> GradientProtection::TrainingTargets(absl::Span<const uint8_t> labels) {
  return std::vector<float>(labels.begin(), labels.end());
}

absl::Status GradientProtection::PrimeMoments(ConstMatrixView, absl::Span<const uint8_t>) { return absl::OkStatus(); }

std::optional<ClassMoments> GradientProtection::Moments() const { return std::nullopt; }

void GradientProtection::RestoreMoments(const ClassMoments&) {}

}  // namespace splitveil
