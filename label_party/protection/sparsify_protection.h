// `sparsify`: only the largest components leave (Lin et al., ICLR 2018; Fu et al., USENIX Security 2022).
#ifndef SPLITVEIL_LABEL_PARTY_PROTECTION_SPARSIFY_PROTECTION_H_
#define SPLITVEIL_LABEL_PARTY_PROTECTION_SPARSIFY_PROTECTION_H_

#include <string>

#include "label_party/protection/gradient_protection.h"

namespace splitveil {

// Keeps the ceil(keep n) of a batch's n components that are largest in magnitude (of equal ones the first) and sets the
// others to zero. Biased, without randomness, and the same for every batch, whatever its classes. A baseline: states no
// divergence, and a kept component leaves as it is, so that a batch of one class is no safer than without it.
class SparsifyProtection final : public GradientProtection {
 public:
  // keep in (0, 1).
  explicit SparsifyProtection(double keep) : keep_(keep) {}

  absl::StatusOr<ProtectionReport> PerturbWithin(ConstMatrixView gradients, absl::Span<const uint8_t> labels,
                                                 const NoisePosition& position, double max_sum_kl,
                                                 Matrix& out) override;
  std::string name() const override;

 private:
  const double keep_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_PROTECTION_SPARSIFY_PROTECTION_H_
