// `gaussian_label_dp`: labels by the Gaussian mechanism (Dong, Roth, Su, JRSSB 2022).
#ifndef SPLITVEIL_LABEL_PARTY_PROTECTION_GAUSSIAN_LABEL_DP_PLANNER_H_
#define SPLITVEIL_LABEL_PARTY_PROTECTION_GAUSSIAN_LABEL_DP_PLANNER_H_

#include <memory>
#include <string>
#include <utility>

#include "label_party/label_privacy/noised_labels.h"
#include "label_party/noise/noise_planner.h"

namespace splitveil {

// Sends the gradients of a head that has learned from noised labels alone (two_headed_top_model.h) as they are.
//
// Protects each label of the run, from whoever sees all that leaves: it is a function of the noised labels, one draw
// per example or one per epoch, and of what holds no label, so that by composition and post-processing the whole run is
// mu-GDP with mu = sqrt(sum over draws of 1 / sigma^2), whatever the number of batches, the model, the activations (the
// peer may choose them) and the gradients' distribution.
// Holds for any adversary with any side information but the label: AUC <= Phi(mu / sqrt 2) among examples that it could
// not rank before. A further run with the same noise (privacy_account.h) discloses nothing more; with other noise mu
// adds as sqrt(sum mu^2). Does not protect what features, either party's, tell of a label, the share of positives,
// which examples take part, nor the labels of test examples where a decision made from them leaves.
class GaussianLabelDpPlanner final : public NoisePlanner {
 public:
  explicit GaussianLabelDpPlanner(std::shared_ptr<const NoisedLabels> labels) : labels_(std::move(labels)) {}

  // FailedPrecondition where the targets were never drawn. sum_kl: mu^2 of the epoch's draw, the divergence of two
  // Gaussians mu apart, whose GaussianAucBound is Phi(mu / sqrt 2); run_sum_kl: of all draws together, from the first
  // batch on.
  absl::StatusOr<NoisePlan> Plan(const BatchFacts& batch, double max_sum_kl) const override;
  Perturbation perturbation() const override { return Perturbation::kNone; }
  std::string name() const override;

 private:
  const std::shared_ptr<const NoisedLabels> labels_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_PROTECTION_GAUSSIAN_LABEL_DP_PLANNER_H_
