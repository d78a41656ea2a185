// `iso`: isotropic Gaussian noise (Li et al., ICLR 2022, sections 4.1 and 5.2).
#ifndef SPLITVEIL_LABEL_PARTY_PROTECTION_ISO_PROTECTION_H_
#define SPLITVEIL_LABEL_PARTY_PROTECTION_ISO_PROTECTION_H_

#include <memory>
#include <string>

#include "label_party/protection/noisy_protection.h"

namespace splitveil {

// Adds N(0, (t/d) ||g_max||^2 I) to every row, g_max the longest gradient of the batch. Protects labels from who sees
// the perturbed gradients of one step; over steps divergences add. Does not use the direction in which the classes
// differ, so it takes more noise than Marvell for the same protection. A batch of zeros is perturbed on the scale of
// the run's average ||g_max||^2, or 1 before there is one ("iso+fallback").
class IsoProtection final : public NoisyProtection {
 public:
  // t > 0: noise power of a row relative to ||g_max||^2.
  IsoProtection(double t, std::unique_ptr<SecureGaussian> gaussian);
  std::string name() const override;

 private:
  absl::StatusOr<ProtectionReport> AddNoise(const Batch& batch) override;

  const double t_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_PROTECTION_ISO_PROTECTION_H_
