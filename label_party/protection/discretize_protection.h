// `discretize`: DiscreteSGD (Fu et al., "Label inference attacks against vertical federated learning", USENIX Security
// 2022, section 6).
#ifndef SPLITVEIL_LABEL_PARTY_PROTECTION_DISCRETIZE_PROTECTION_H_
#define SPLITVEIL_LABEL_PARTY_PROTECTION_DISCRETIZE_PROTECTION_H_

#include <cstdint>
#include <string>

#include "label_party/protection/gradient_protection.h"

namespace splitveil {

// Replaces each component by the nearest of `bins` values, equally spaced from mean - 2 sigma to mean + 2 sigma, mean
// and sigma over all components of the batch (the paper takes those of the first epoch); what lies beyond goes to the
// end. Biased, without randomness, and the same for every batch, whatever its classes. A baseline: states no
// divergence. A batch whose components are all equal is its own bin and leaves as it is.
class DiscretizeProtection final : public GradientProtection {
 public:
  // bins >= 2.
  explicit DiscretizeProtection(int32_t bins) : bins_(bins) {}

  absl::StatusOr<ProtectionReport> PerturbWithin(ConstMatrixView gradients, absl::Span<const uint8_t> labels,
                                                 const NoisePosition& position, double max_sum_kl,
                                                 Matrix& out) override;
  std::string name() const override;

 private:
  const int32_t bins_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_PROTECTION_DISCRETIZE_PROTECTION_H_
