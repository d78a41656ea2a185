// What the label party does to the cut gradients before they leave.
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
#include "label_party/noise/batch_facts.h"
#include "label_party/noise/class_moments.h"
#include "label_party/noise/noise_plan.h"
#include "label_party/noise/noise_planner.h"
#include "label_party/noise/protection_report.h"

namespace splitveil {

// Protects a run's batches, one after the other: what a method plans, the noise it draws, and what the run remembers of
// its class moments.
//
//   batch = Describe(gradients, labels, position)   once per batch
//   plan = Plan(batch, limit)                       as often as the release gate asks for less divergence
//   Apply(plan, batch, out)                         what leaves
//
// A position's batch may be described, planned and applied any number of times before the next position's, in any
// strength: each gives the same bytes again. What it falls back on are the moments of the batches before. One object
// per run. Not thread-safe.
class GradientProtection {
 public:
  static constexpr double kAsConfigured = std::numeric_limits<double>::infinity();

  // `gaussian` may be null where the planner's perturbation is not kNoise.
  GradientProtection(std::unique_ptr<const NoisePlanner> planner, std::unique_ptr<SecureGaussian> gaussian);

  // What the classes' gradients are like, before a batch of both has been protected: `gradients` [rows, d] that the
  // current model has for `labels`, on whatever examples. Without it a batch of one class has no known divergence at
  // first. Methods that go by no moments ignore it. Errors: as Describe.
  absl::Status PrimeMoments(ConstMatrixView gradients, absl::Span<const uint8_t> labels);
  // Running moments of the classes for a run that continues this one; nullopt where the method keeps none or has seen
  // no batch that tells them.
  std::optional<ClassMoments> Moments() const;
  // Goes on from the Moments() of an earlier run, of gradients as wide. Methods that go by no moments ignore it.
  void RestoreMoments(const ClassMoments& moments);

  // What there is to know of `gradients` [batch, d] of `labels` [batch], 0 or 1; both must outlive the result. The
  // first batch of a position takes the one before into the running moments. Errors: InvalidArgument for shapes or
  // labels that do not fit; Internal for a non-finite gradient.
  absl::StatusOr<BatchFacts> Describe(ConstMatrixView gradients, absl::Span<const uint8_t> labels,
                                      const NoisePosition& position);
  // As configured, or with as much more noise as keeps the report's sum_kl at or below `max_sum_kl` (> 0). Nothing is
  // drawn. Errors: FailedPrecondition where max_sum_kl is finite and no noise is known to keep it (the method states no
  // divergence, no class moments are known yet).
  absl::StatusOr<NoisePlan> Plan(const BatchFacts& batch, double max_sum_kl) const;
  // Writes what may leave into `out`, [batch, d]; see ApplyPlan. Errors, after which `out` is empty and the batch
  // forgotten, where a float cannot hold the result: Internal; FailedPrecondition for a plan that keeps a limit.
  absl::Status Apply(const NoisePlan& plan, const BatchFacts& batch, Matrix& out);

  // All three. `out` is empty on every error.
  absl::StatusOr<ProtectionReport> PerturbWithin(ConstMatrixView gradients, absl::Span<const uint8_t> labels,
                                                 const NoisePosition& position, double max_sum_kl, Matrix& out);
  absl::StatusOr<ProtectionReport> Perturb(ConstMatrixView gradients, absl::Span<const uint8_t> labels,
                                           const NoisePosition& position, Matrix& out) {
    return PerturbWithin(gradients, labels, position, kAsConfigured, out);
  }

  // Whether rows leave as they are, whatever the others of their batch.
  bool is_passthrough() const { return planner_->perturbation() == Perturbation::kNone; }
  // Whether the method goes by class moments: PrimeMoments and RestoreMoments tell it something.
  bool keeps_moments() const { return planner_->perturbation() == Perturbation::kNoise; }
  // NoisePlanner::name.
  std::string name() const { return planner_->name(); }

 private:
  const std::unique_ptr<const NoisePlanner> planner_;
  const std::unique_ptr<SecureGaussian> gaussian_;
  RunningMoments running_;  // Of the batches before the latest.
  NoisePosition latest_position_;
  ClassMoments latest_;  // Not informative before the first batch.
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_PROTECTION_GRADIENT_PROTECTION_H_
