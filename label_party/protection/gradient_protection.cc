#include "label_party/protection/gradient_protection.h"

#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "label_party/protection/iso_protection.h"
#include "label_party/protection/marvell_power.h"
#include "label_party/protection/marvell_protection.h"
#include "label_party/protection/max_norm_protection.h"
#include "label_party/protection/no_protection.h"

namespace splitveil {
namespace {

absl::Status CheckPositive(const char* field, double value) {
  // Written so that NaN fails.
  if (value > 0 && std::isfinite(value)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("gradient_protection.", field, ": expected a positive finite number, found ", value));
}

absl::StatusOr<MarvellStrength> StrengthOf(const v1::GradientProtection::Marvell& config) {
  using Kind = MarvellStrength::Kind;
  switch (config.strength_case()) {
    case v1::GradientProtection::Marvell::kS:
      if (absl::Status status = CheckPositive("marvell.s", config.s()); !status.ok()) {
        return status;
      }
      return MarvellStrength{Kind::kPower, config.s(), absl::StrCat("s=", config.s())};
    case v1::GradientProtection::Marvell::kSumKl:
      if (absl::Status status = CheckPositive("marvell.sum_kl", config.sum_kl()); !status.ok()) {
        return status;
      }
      return MarvellStrength{Kind::kSumKl, config.sum_kl(), absl::StrCat("sum_kl=", config.sum_kl())};
    case v1::GradientProtection::Marvell::kDetectionError: {
      absl::StatusOr<double> sum_kl = SumKlForDetectionError(config.detection_error());
      if (!sum_kl.ok()) {
        return sum_kl.status();
      }
      return MarvellStrength{Kind::kSumKl, *sum_kl, absl::StrCat("detection_error=", config.detection_error())};
    }
    case v1::GradientProtection::Marvell::STRENGTH_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      "gradient_protection.marvell: expected one of s, sum_kl, detection_error, found none");
}

}  // namespace

absl::StatusOr<std::unique_ptr<GradientProtection>> GradientProtection::Create(const v1::GradientProtection& config,
                                                                               std::unique_ptr<SecureGaussian> noise) {
  if (config.method_case() == v1::GradientProtection::kNone) {
    return std::make_unique<NoProtection>();
  }
  if (noise == nullptr) {
    return absl::InvalidArgumentError("gradient_protection: expected a source of noise, found none");
  }
  switch (config.method_case()) {
    case v1::GradientProtection::kIso:
      if (absl::Status status = CheckPositive("iso.t", config.iso().t()); !status.ok()) {
        return status;
      }
      return std::make_unique<IsoProtection>(config.iso().t(), std::move(noise));
    case v1::GradientProtection::kMaxNorm:
      return std::make_unique<MaxNormProtection>(std::move(noise));
    case v1::GradientProtection::kMarvell: {
      absl::StatusOr<MarvellStrength> strength = StrengthOf(config.marvell());
      if (!strength.ok()) {
        return strength.status();
      }
      return std::make_unique<MarvellProtection>(*std::move(strength), std::move(noise));
    }
    default:
      return absl::InvalidArgumentError(
          "gradient_protection: expected one of none, iso, max_norm, marvell, found none of them");
  }
}

}  // namespace splitveil
