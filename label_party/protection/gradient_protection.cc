#include "label_party/protection/gradient_protection.h"

#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "label_party/protection/iso_protection.h"
#include "label_party/protection/marvell_protection.h"
#include "label_party/protection/max_norm_protection.h"
#include "label_party/protection/no_protection.h"

namespace splitveil {

bool CanRaiseNoise(const v1::GradientProtection& config) { return config.has_iso() || config.has_marvell(); }

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
      // Written so that NaN fails.
      if (!(config.iso().t() > 0 && std::isfinite(config.iso().t()))) {
        return absl::InvalidArgumentError(
            absl::StrCat("gradient_protection.iso.t: expected a positive finite number, found ", config.iso().t()));
      }
      return std::make_unique<IsoProtection>(config.iso().t(), std::move(noise));
    case v1::GradientProtection::kMaxNorm:
      return std::make_unique<MaxNormProtection>(std::move(noise));
    case v1::GradientProtection::kMarvell: {
      absl::StatusOr<MarvellStrength> strength = MarvellStrengthOf(config.marvell());
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
