// What the label party does to the cut gradients before they are sent.
#ifndef SPLITVEIL_LABEL_PARTY_PROTECTION_GRADIENT_PROTECTION_H_
#define SPLITVEIL_LABEL_PARTY_PROTECTION_GRADIENT_PROTECTION_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

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
//   facts = Describe(batch, position)               once per batch, of what no label has moved
//   plan = Plan(facts, limit)                       as often as the release gate asks for less divergence
//   Apply(plan, gradients and labels, position, out)  what may be sent
//
// or states what a release discloses and has the gradients sent as they are (Report).
//
// A position's batch may be planned and applied any number of times, in any strength: each gives the same bytes again.
// One object per run. Not thread-safe.
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
  // Short name with its parameter: "marvell(s=4)".
  std::string name() const;

  // Of any batch of `epoch`, as PassthroughMethod::Report. Requires !changes_gradients().
  absl::StatusOr<ProtectionReport> Report(uint32_t epoch) const { return passthrough_->Report(epoch); }

  // The following three require changes_gradients().

  // Errors: as ExpectedMoments.
  absl::StatusOr<BatchFacts> Describe(const LabelFreeBatch& batch, const NoisePosition& position) const;
  // As configured, or with as much more noise as keeps the report's sum_kl at or below `max_sum_kl` (> 0). Nothing is
  // drawn. Beside a regulariser, which moves a gradient by other rows' labels, too, no divergence is stated. Errors:
  // FailedPrecondition if max_sum_kl is finite and no noise is known to keep it (the method states no divergence).
  absl::StatusOr<NoisePlan> Plan(const BatchFacts& batch, double max_sum_kl) const;
  // Writes what may be sent into `out`, [batch, d]; see ApplyPlan. If a float cannot hold the result, Internal, or
  // FailedPrecondition for a plan that keeps a limit.
  absl::Status Apply(const NoisePlan& plan, const LabelledGradients& batch, const NoisePosition& position, Matrix& out);

  // All three, or a copy for a method that changes nothing. `out` is empty on every error.
  absl::StatusOr<ProtectionReport> PerturbWithin(const LabelFreeBatch& batch, const LabelledGradients& gradients,
                                                 const NoisePosition& position, double max_sum_kl, Matrix& out);
  absl::StatusOr<ProtectionReport> Perturb(const LabelFreeBatch& batch, const LabelledGradients& gradients,
                                           const NoisePosition& position, Matrix& out) {
    return PerturbWithin(batch, gradients, position, kAsConfigured, out);
  }

 private:
  // One of the two is null.
  const std::unique_ptr<const NoisePlanner> planner_;
  const std::unique_ptr<const PassthroughMethod> passthrough_;
  const std::unique_ptr<SecureGaussian> gaussian_;
  const double regulariser_weight_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_PROTECTION_GRADIENT_PROTECTION_H_
