// Methods that change no gradient: `none`, `label_dp` and `gaussian_label_dp`.
#ifndef SPLITVEIL_LABEL_PARTY_PROTECTION_PASSTHROUGH_METHODS_H_
#define SPLITVEIL_LABEL_PARTY_PROTECTION_PASSTHROUGH_METHODS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

#include "label_party/label_privacy/noised_labels.h"
#include "label_party/noise/noise_plan.h"

namespace splitveil {

// States what a release discloses without reading the gradients, which are sent as they are. Thread-safe.
class PassthroughMethod {
 public:
  virtual ~PassthroughMethod() = default;

  // Of any batch of `epoch`. Errors: FailedPrecondition if the labels that the method protects were never drawn.
  virtual absl::StatusOr<ProtectionReport> Report(uint32_t epoch) const = 0;
  // Short name with its parameter, for reports: "label_dp(epsilon=1)".
  virtual std::string name() const = 0;
};

// Protects nothing: every label of a batch shows in its gradients. The yardstick of the other methods. States no
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
// add. Does not protect y' itself, which the gradients show; the share of positives; or what else is made of the true
// labels and sent (the hints of an ORACLE disclosure, answers to scores, decisions on a measured leak). Targets outside
// [0, 1] have a loss that is not bounded below: a top model that memorises single examples may diverge.
class LabelDpMethod final : public PassthroughMethod {
 public:
  // Of the run whose labels `randomizer` replaces; shared with the part that trains on them.
  explicit LabelDpMethod(std::shared_ptr<const LabelRandomizer> randomizer) : randomizer_(std::move(randomizer)) {}

  // sum_kl = run_sum_kl = max(2 (1 - 2 rho) epsilon, 2 Phi^-1(1 - rho)^2): the divergence of the two distributions of
  // y' or, if that is more, of Gaussian classes with the AUC 1 - rho, so that GaussianAucBound of it is never too
  // small.
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

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_PROTECTION_PASSTHROUGH_METHODS_H_
