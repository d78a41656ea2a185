// What the label party does to the cut gradients before they leave.
#ifndef SPLITVEIL_LABEL_PARTY_PROTECTION_GRADIENT_PROTECTION_H_
#define SPLITVEIL_LABEL_PARTY_PROTECTION_GRADIENT_PROTECTION_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/crypto/secure_gaussian.h"
#include "common/matrix/matrix.h"

#include "splitveil/v1/protection.pb.h"

namespace splitveil {

// What was solved and added for one batch; the ledger's `protection` row. NaN: does not apply to the method.
struct ProtectionReport {
  std::string method;  // none, iso, max_norm, marvell; with "+fallback" where running or isotropic estimates served.
  double u, v;         // Variance of a component within class 0 and class 1.
  double g;            // ||dg||^2, squared distance of the class means.
  double p;            // Share of positives.
  double power;        // Noise power P.
  double lambda1_neg, lambda2_neg, lambda1_pos, lambda2_pos;
  double sum_kl;  // Of the perturbed classes under the Gaussian model.
};

// Perturbs batches. Every method is unbiased: E[out | gradients] = gradients. Stateful (running class moments), one
// object a run. Not thread-safe.
class GradientProtection {
 public:
  // `noise` is owned. Errors: InvalidArgument for a missing or impossible setting.
  static absl::StatusOr<std::unique_ptr<GradientProtection>> Create(const v1::GradientProtection& config,
                                                                    std::unique_ptr<SecureGaussian> noise);
  virtual ~GradientProtection() = default;

  // Writes the perturbed rows of `gradients` [batch, d] into `out` (same shape; may not alias). `labels`: 0 or 1,
  // [batch]. Batches with one class and gradients of zero are protected too (architecture rule 3).
  // Errors: Internal for a non-finite gradient: nothing is written that may leave.
  virtual absl::StatusOr<ProtectionReport> Perturb(ConstMatrixView gradients, absl::Span<const uint8_t> labels,
                                                   const NoisePosition& position, Matrix& out) = 0;

  // Short name with its parameter, for reports: "marvell(s=4)".
  virtual std::string name() const = 0;
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_PROTECTION_GRADIENT_PROTECTION_H_
