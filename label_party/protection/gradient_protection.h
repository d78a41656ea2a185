// What the label party does to the cut gradients before they leave.
#ifndef SPLITVEIL_LABEL_PARTY_PROTECTION_GRADIENT_PROTECTION_H_
#define SPLITVEIL_LABEL_PARTY_PROTECTION_GRADIENT_PROTECTION_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/crypto/secure_gaussian.h"
#include "common/matrix/matrix.h"
#include "label_party/protection/class_moments.h"

#include "splitveil/v1/protection.pb.h"

namespace splitveil {

// What was solved and added for one batch; the ledger's `protection` row. NaN: does not apply to the method.
struct ProtectionReport {
  // none, iso, max_norm, marvell, label_dp, sparsify, discretize; with "+fallback" where running or isotropic estimates
  // served.
  std::string method;
  double u, v;   // Variance of a component within class 0 and class 1.
  double g;      // ||dg||^2, squared distance of the class means.
  double p;      // Share of positives.
  double power;  // Noise power P.
  double lambda1_neg, lambda2_neg, lambda1_pos, lambda2_pos;
  // Of the perturbed classes under the Gaussian model; label_dp: of the randomised labels, or of Gaussian classes with
  // their AUC where that is more.
  double sum_kl;
  // The divergence of all releases of the run together, whatever their number: it counts once. NaN: that of one
  // release, and releases add.
  double run_sum_kl = std::numeric_limits<double>::quiet_NaN();
};

// Whether the configured method can be asked for more noise than configured: its divergence is known and falls with it.
bool CanRaiseNoise(const v1::GradientProtection& config);

// Labels are indices of classes in [0, kClasses): nothing but ClassMoments (two classes, their means' difference dg)
// and Theorem 2 behind Marvell, which read it, holds to two.
inline constexpr int kClasses = 2;

// Perturbs batches. Every method but sparsify and discretize is unbiased: E[out | gradients] = gradients. Stateful
// (running class moments), one object a run. Not thread-safe.
class GradientProtection {
 public:
  static constexpr double kAsConfigured = std::numeric_limits<double>::infinity();

  // `noise` is owned; methods without noise need none. label_dp draws its own key. Errors: InvalidArgument for a
  // missing or impossible setting.
  static absl::StatusOr<std::unique_ptr<GradientProtection>> Create(const v1::GradientProtection& config,
                                                                    std::unique_ptr<SecureGaussian> noise);
  virtual ~GradientProtection() = default;

  // What to train on instead of `labels` [examples]: the labels themselves, unless the method protects these. Call it
  // once, before the first batch.
  virtual std::vector<float> TrainingTargets(absl::Span<const uint8_t> labels);

  // What the classes' gradients are like, before a batch of both has been perturbed: `gradients` [rows, d] that the
  // current model has for `labels`, on whatever examples. Without it a batch of one class has no known divergence at
  // first. Methods that go by no moments ignore it. Errors: as PerturbWithin.
  virtual absl::Status PrimeMoments(ConstMatrixView gradients, absl::Span<const uint8_t> labels);

  // Running moments of the classes for a run that continues this one; nullopt where the method keeps none or has seen
  // no batch that tells them.
  virtual std::optional<ClassMoments> Moments() const;
  // Goes on from the Moments() of an earlier run, of gradients as wide. Methods that go by no moments ignore it.
  virtual void RestoreMoments(const ClassMoments& moments);

  // Writes the perturbed rows of `gradients` [batch, d] into `out` (same shape; may not alias). `labels`: 0 or 1,
  // [batch]. Batches with one class and gradients of zero are protected too (architecture rule 3). A position's batch
  // may be perturbed any number of times before the next position's, in any strength: each gives the same bytes again.
  //
  // Noise as configured, or more: as much as brings the report's sum_kl to `max_sum_kl` (> 0) or below. The noise of
  // different strengths at one position is the same draw on different scales, so only one of them may leave.
  // Errors: Internal for a non-finite gradient; FailedPrecondition where max_sum_kl is finite and no noise is known to
  // keep it (the method states no divergence, no class moments are known yet, a float cannot hold the noise). Nothing
  // is then written that may leave.
  virtual absl::StatusOr<ProtectionReport> PerturbWithin(ConstMatrixView gradients, absl::Span<const uint8_t> labels,
                                                         const NoisePosition& position, double max_sum_kl,
                                                         Matrix& out) = 0;
  // As configured.
  absl::StatusOr<ProtectionReport> Perturb(ConstMatrixView gradients, absl::Span<const uint8_t> labels,
                                           const NoisePosition& position, Matrix& out) {
    return PerturbWithin(gradients, labels, position, kAsConfigured, out);
  }

  // Whether rows leave as they are, whatever the others of their batch: what is protected, if anything, is not done
  // here.
  virtual bool is_passthrough() const { return false; }

  // Short name with its parameter, for reports: "marvell(s=4)".
  virtual std::string name() const = 0;
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_PROTECTION_GRADIENT_PROTECTION_H_
