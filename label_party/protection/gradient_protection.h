// What the label party does to the cut gradients before they are sent.
#ifndef SPLITVEIL_LABEL_PARTY_PROTECTION_GRADIENT_PROTECTION_H_
#define SPLITVEIL_LABEL_PARTY_PROTECTION_GRADIENT_PROTECTION_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/crypto/secure_gaussian.h"
#include "common/matrix/matrix.h"
#include "label_party/noise/class_moments.h"
#include "label_party/noise/noise_plan.h"
#include "label_party/noise/noise_planner.h"
#include "label_party/protection/passthrough_methods.h"

namespace splitveil {

// Protects a run's batches, one after the other. A method either plans a change of the gradients and carries it out
// (changes_gradients()):
//
//   batch = Describe(gradients, labels, position)   once per batch
//   plan = Plan(batch, limit)                       as often as the release gate asks for less divergence
//   Apply(plan, batch, out)                         what may be sent
//
// or states what a release discloses and has the gradients sent as they are (Report).
//
// A position's batch may be described, planned and applied any number of times before the next position's, in any
// strength: each gives the same bytes again. It falls back on the moments of the batches before. One object per run.
// Not thread-safe.
class GradientProtection {
 public:
  static constexpr double kAsConfigured = std::numeric_limits<double>::infinity();

  // A method that changes gradients. `gaussian` may be null if it draws no noise. `regulariser_weight`: of the distance
  // correlation, whose gradients the training step adds before; 0: none.
  GradientProtection(std::unique_ptr<const NoisePlanner> planner, std::unique_ptr<SecureGaussian> gaussian,
                     double regulariser_weight = 0);
  explicit GradientProtection(std::unique_ptr<const PassthroughMethod> method, double regulariser_weight = 0);

  bool changes_gradients() const { return planner_ != nullptr; }
  // Whether a row can be sent before the others of its batch are there: no method changes it, no regulariser reads
  // them.
  bool is_passthrough() const { return planner_ == nullptr && regulariser_weight_ == 0; }
  // Whether the method uses class moments, so that PrimeMoments and RestoreMoments have an effect.
  bool keeps_moments() const { return planner_ != nullptr && planner_->perturbation() == Perturbation::kNoise; }
  // Short name with its parameter: "marvell(s=4)".
  std::string name() const;

  // Of any batch of `epoch`, as PassthroughMethod::Report. Requires !changes_gradients().
  absl::StatusOr<ProtectionReport> Report(uint32_t epoch) const { return passthrough_->Report(epoch); }

  // The following three require changes_gradients().

  // What there is to know of `gradients` [batch, d] of `labels` [batch], 0 or 1; both must outlive the result. The
  // first batch of a position takes the one before into the running moments. Errors: InvalidArgument for shapes or
  // labels that do not fit; Internal for a non-finite gradient.
  absl::StatusOr<BatchFacts> Describe(ConstMatrixView gradients, absl::Span<const uint8_t> labels,
                                      const NoisePosition& position);
  // As configured, or with as much more noise as keeps the report's sum_kl at or below `max_sum_kl` (> 0). Nothing is
  // drawn. Errors: FailedPrecondition if max_sum_kl is finite and no noise is known to keep it (the method states no
  // divergence, no class moments are known yet).
  absl::StatusOr<NoisePlan> Plan(const BatchFacts& batch, double max_sum_kl) const;
  // Writes what may be sent into `out`, [batch, d]; see ApplyPlan. Errors, after which `out` is empty and the batch
  // forgotten, if a float cannot hold the result: Internal; FailedPrecondition for a plan that keeps a limit.
  absl::Status Apply(const NoisePlan& plan, const BatchFacts& batch, Matrix& out);

  // All three, or a copy for a method that changes nothing. `out` is empty on every error.
  absl::StatusOr<ProtectionReport> PerturbWithin(ConstMatrixView gradients, absl::Span<const uint8_t> labels,
                                                 const NoisePosition& position, double max_sum_kl, Matrix& out);
  absl::StatusOr<ProtectionReport> Perturb(ConstMatrixView gradients, absl::Span<const uint8_t> labels,
                                           const NoisePosition& position, Matrix& out) {
    return PerturbWithin(gradients, labels, position, kAsConfigured, out);
  }

  // What the classes' gradients are like, before a batch of both has been protected: `gradients` [rows, d] that the
  // current model has for `labels`, on any examples. Without it a batch of one class has no known divergence at first.
  // Errors: see Describe.
  absl::Status PrimeMoments(ConstMatrixView gradients, absl::Span<const uint8_t> labels);
  // Running moments of the classes for a run that continues this one; nullopt if the method keeps none or has seen no
  // batch with both classes.
  std::optional<ClassMoments> Moments() const;
  // Resumes from the Moments() of an earlier run, of gradients as wide.
  void RestoreMoments(const ClassMoments& moments);

 private:
  // One of the two is null.
  const std::unique_ptr<const NoisePlanner> planner_;
  const std::unique_ptr<const PassthroughMethod> passthrough_;
  const std::unique_ptr<SecureGaussian> gaussian_;
  const double regulariser_weight_;
  RunningMoments running_;  // Of the batches before the latest.
  NoisePosition latest_position_;
  ClassMoments latest_;  // Not informative before the first batch.
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_PROTECTION_GRADIENT_PROTECTION_H_
