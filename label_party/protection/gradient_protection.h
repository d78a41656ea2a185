// What the label party does to the cut gradients before they are sent.
#ifndef SPLITVEIL_LABEL_PARTY_PROTECTION_GRADIENT_PROTECTION_H_
#define SPLITVEIL_LABEL_PARTY_PROTECTION_GRADIENT_PROTECTION_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/crypto/secure_gaussian.h"
#include "common/matrix/matrix.h"
#include "label_party/label_privacy/noised_labels.h"
#include "label_party/noise/noise_plan.h"
#include "label_party/noise/noise_planner.h"

namespace splitveil {

// States what a release discloses without reading the gradients, which are sent as they are. Thread-safe.
class PassthroughMethod {
 public:
  virtual ~PassthroughMethod() = default;

  // What a release of any batch of `epoch` discloses. Errors: FailedPrecondition if the labels that the method protects
  // were never drawn.
  virtual absl::StatusOr<ProtectionReport> Report(uint32_t epoch) const = 0;
  // Short name with its parameter, for reports: "label_dp(epsilon=1)".
  virtual std::string name() const = 0;
};

// Protects nothing: every label of a batch shows in its gradients. For comparison with the other methods. States no
// divergence (sum_kl is NaN), so that every limit on it counts as exceeded.
class NoProtection final : public PassthroughMethod {
 public:
  absl::StatusOr<ProtectionReport> Report(uint32_t epoch) const override;
  std::string name() const override { return "none"; }
};

// Sends the gradients of randomised labels (LabelRandomizer), which hide the labels already (Warner, JASA 1965;
// Ghazi et al., NeurIPS 2021).
//
// Protects each label from an adversary that sees all releases of the run: they are made of the randomised label y'
// alone, which no number of epochs changes. They change the odds of any label by a factor of at most e^epsilon beyond
// what the adversary knows otherwise, without any assumption on the gradients. Among examples of equal prior the AUC is
// at most 1 - rho = e^epsilon / (1 + e^epsilon). Across examples whose priors differ it may be more, since an adversary
// also ranks by its own features or by what the model learned. A second run draws new flips, so the epsilons of runs
// add, unless an account keeps the flips. Does not protect y' itself, which the gradients show; the share of positives;
// or what else is made of the true labels and sent (the hints of an ORACLE disclosure, answers to scores, decisions on
// a measured leak). Targets outside [0, 1] have a loss that is not bounded below: a top model that memorises single
// examples may diverge.
class LabelDpMethod final : public PassthroughMethod {
 public:
  // `randomizer`: replaces the labels of the run; shared with the part that trains on them.
  explicit LabelDpMethod(std::shared_ptr<const LabelRandomizer> randomizer) : randomizer_(std::move(randomizer)) {}

  // sum_kl = 2 Phi^-1(1 - rho)^2: GaussianAucBound of it is 1 - rho, the AUC of the best test of y'. run_sum_kl:
  // LabelRandomizer::noise_sum_kl.
  absl::StatusOr<ProtectionReport> Report(uint32_t epoch) const override;
  std::string name() const override;

 private:
  const std::shared_ptr<const LabelRandomizer> randomizer_;
};

// Sends the gradients of a head that has learned from noised labels alone (release_head_models.h), by the Gaussian
// mechanism (Dong, Roth, Su, JRSSB 2022).
//
// Protects each label of the run from an adversary that sees all that is sent: a function of the noised labels, one
// draw per example or one per epoch, and of data that hold no label. By composition and post-processing the whole run
// is mu-GDP with mu = sqrt(sum over draws of 1 / sigma^2), whatever the number of batches, the model, the activations
// (the peer may choose them) and the gradients' distribution. Holds for any adversary with any side information but the
// label: AUC <= Phi(mu / sqrt 2) among examples that it could not rank before. A further run with the same noise
// (privacy_account.h) discloses nothing more; with different noise mu adds as sqrt(sum mu^2). Does not protect what
// either party's features reveal of a label, the share of positives, which examples take part, or the labels of test
// examples if a decision made from them is sent.
class GaussianLabelDpMethod final : public PassthroughMethod {
 public:
  explicit GaussianLabelDpMethod(std::shared_ptr<const NoisedLabels> labels) : labels_(std::move(labels)) {}

  // sum_kl: mu^2 of the epoch's draw, the divergence of two Gaussians mu apart, whose GaussianAucBound is
  // Phi(mu / sqrt 2). run_sum_kl: of all draws together, from the first batch on.
  absl::StatusOr<ProtectionReport> Report(uint32_t epoch) const override;
  std::string name() const override;

 private:
  const std::shared_ptr<const NoisedLabels> labels_;
};

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

  // A method that changes gradients. `gaussian` may be null if it draws no noise. `regulariser_weight`: weight of the
  // distance correlation, whose gradients the training step adds before the protection; 0: none.
  GradientProtection(std::unique_ptr<const NoisePlanner> planner, std::unique_ptr<SecureGaussian> gaussian,
                     double regulariser_weight = 0);
  explicit GradientProtection(std::unique_ptr<const PassthroughMethod> method, double regulariser_weight = 0);

  bool changes_gradients() const { return planner_ != nullptr; }
  // Whether a row can be sent before the rest of its batch is there: no method changes it, and no regulariser reads the
  // other rows.
  bool is_passthrough() const { return planner_ == nullptr && regulariser_weight_ == 0; }
  // Short name with its parameter: "marvell(s=4)".
  std::string name() const;

  // What a release of any batch of `epoch` discloses; see PassthroughMethod::Report. Requires !changes_gradients().
  absl::StatusOr<ProtectionReport> Report(uint32_t epoch) const { return passthrough_->Report(epoch); }

  // The following three require changes_gradients().

  // Errors: see ExpectedMoments.
  absl::StatusOr<BatchFacts> Describe(const LabelFreeBatch& batch, const NoisePosition& position) const;
  // Plans the noise as configured, or as much more as keeps the report's sum_kl at or below `max_sum_kl` (> 0). Draws
  // nothing. With a regulariser no divergence is stated, since it moves a gradient by other rows' labels, too. Errors:
  // FailedPrecondition if max_sum_kl is finite and no noise is known to keep it (the method states no divergence).
  absl::StatusOr<NoisePlan> Plan(const BatchFacts& batch, double max_sum_kl) const;
  // Writes what may be sent into `out`, [batch, d]; see ApplyPlan. If a float cannot hold the result, Internal, or
  // FailedPrecondition for a plan that keeps a limit.
  absl::Status Apply(const NoisePlan& plan, const LabelledGradients& batch, const NoisePosition& position, Matrix& out);

  // Describe, Plan and Apply in one call, or a copy for a method that changes nothing. `out` is empty on every error.
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
