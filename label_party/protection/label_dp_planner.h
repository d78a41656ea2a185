// `label_dp`: labels by randomised response (Warner, JASA 1965; Ghazi et al., NeurIPS 2021).
#ifndef SPLITVEIL_LABEL_PARTY_PROTECTION_LABEL_DP_PLANNER_H_
#define SPLITVEIL_LABEL_PARTY_PROTECTION_LABEL_DP_PLANNER_H_

#include <memory>
#include <string>
#include <utility>

#include "label_party/label_privacy/label_randomizer.h"
#include "label_party/noise/noise_planner.h"

namespace splitveil {

// Sends the gradients of randomised labels (label_randomizer.h) as they are: those of the targets hide the labels
// already.
//
// Protects each label, from who sees all releases of the run: they are made of y' alone, which no number of epochs
// changes. What leaves changes the odds of any label by a factor of at most e^epsilon beyond what is known of it
// otherwise, without any assumption on the gradients. Among examples of equal prior the AUC is at most 1 - rho =
// e^epsilon / (1 + e^epsilon); across examples whose priors differ it may be more, since an adversary ranks by these
// too, of its own features or of what the model learned. A second run draws new flips, so that the epsilons of runs
// add. Does not protect y' itself, which the gradients show; nor the share of positives; nor what else is made of the
// true labels and leaves (the hints of an ORACLE disclosure, answers to scores, decisions on a measured leak). Targets
// outside [0, 1] have a loss that is not bounded below: a top model that learns single examples by heart may diverge.
class LabelDpPlanner final : public NoisePlanner {
 public:
  // Of the run whose labels `randomizer` replaces; shared with who trains on them.
  explicit LabelDpPlanner(std::shared_ptr<const LabelRandomizer> randomizer) : randomizer_(std::move(randomizer)) {}

  // FailedPrecondition where the targets were never drawn. sum_kl = run_sum_kl = max(2 (1 - 2 rho) epsilon, 2 Phi^-1(1
  // - rho)^2): the divergence of the two distributions of y' or, where that is more, of Gaussian classes with the AUC 1
  // - rho, so that GaussianAucBound of it is never too small.
  absl::StatusOr<NoisePlan> Plan(const BatchFacts& batch, double max_sum_kl) const override;
  Perturbation perturbation() const override { return Perturbation::kNone; }
  std::string name() const override;

 private:
  const std::shared_ptr<const LabelRandomizer> randomizer_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_PROTECTION_LABEL_DP_PLANNER_H_
