#include "label_party/protection/iso_protection.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace splitveil {

IsoProtection::IsoProtection(double t, std::unique_ptr<SecureGaussian> gaussian)
    : NoisyProtection(std::move(gaussian)), t_(t) {}

std::string IsoProtection::name() const { return absl::StrCat("iso(t=", t_, ")"); }

absl::StatusOr<ProtectionReport> IsoProtection::AddNoise(const Batch& batch) {
  if (batch.moments.max_squared_norm > 0) {
    return AddIsotropicNoise(batch, "iso", t_ * batch.moments.max_squared_norm);
  }
  return AddIsotropicNoise(batch, "iso+fallback", t_ * running().FallbackScale(batch.moments));
}

}  // namespace splitveil
