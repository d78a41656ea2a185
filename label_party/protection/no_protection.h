// `none`: sends the gradients as they are.
#ifndef SPLITVEIL_LABEL_PARTY_PROTECTION_NO_PROTECTION_H_
#define SPLITVEIL_LABEL_PARTY_PROTECTION_NO_PROTECTION_H_

#include <string>

#include "label_party/protection/gradient_protection.h"

namespace splitveil {

// Protects nothing: every label of a batch shows in its gradients. The yardstick of the other methods; the report still
// states the divergence of the classes.
class NoProtection final : public GradientProtection {
 public:
  absl::StatusOr<ProtectionReport> PerturbWithin(ConstMatrixView gradients, absl::Span<const uint8_t> labels,
                                                 const NoisePosition& position, double max_sum_kl,
                                                 Matrix& out) override;
  bool is_passthrough() const override { return true; }
  std::string name() const override { return "none"; }
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_PROTECTION_NO_PROTECTION_H_
