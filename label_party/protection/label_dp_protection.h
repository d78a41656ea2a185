// `label_dp`: labels by randomised response (Warner, JASA 1965; Ghazi et al., NeurIPS 2021).
#ifndef SPLITVEIL_LABEL_PARTY_PROTECTION_LABEL_DP_PROTECTION_H_
#define SPLITVEIL_LABEL_PARTY_PROTECTION_LABEL_DP_PROTECTION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/crypto/secure_random.h"
#include "label_party/protection/gradient_protection.h"

namespace splitveil {

// Flips each label once, with probability rho = 1 / (1 + e^epsilon), and trains on the target (y' - rho) / (1 - 2 rho)
// of the flipped label y'. Its mean is the true label (Natarajan et al., "Learning with noisy labels", NeurIPS 2013,
// lemma 1), and the derivative of the log-loss is linear in the target, so that gradients are unbiased over the flips.
//
// Protects each label, from who sees all releases of the run: they are made of y' alone, which no number of epochs
// changes. What leaves changes the odds of any label by a factor of at most e^epsilon beyond what is known of it
// otherwise, without any assumption on the gradients. Among examples of equal prior the AUC is at most 1 - rho =
// e^epsilon / (1 + e^epsilon); across examples whose priors differ it may be more, since an adversary ranks by these
// too, of its own features or of what the model learned. A second run draws new flips, so that the epsilons of runs
// add. Does not protect y' itself, which the gradients show; nor the share of positives; nor what else is made of the
// true labels and leaves (the hints of an ORACLE disclosure, answers to scores, decisions on a measured leak). Targets
// outside [0, 1] have a loss that is not bounded below: a top model that learns single examples by heart may diverge.
class LabelDpProtection final : public GradientProtection {
 public:
  static constexpr double kMaxEpsilon = 30;  // rho = 1e-13; drawn from 64 bits.

  // epsilon in (0, kMaxEpsilon]. The flips are those of `key`.
  LabelDpProtection(double epsilon, SecretKey key);

  // The same for the same key: label j's flip is decided by the j-th 64 bits of AES-256-CTR under it.
  std::vector<float> TrainingTargets(absl::Span<const uint8_t> labels) override;
  // Copies the gradients: those of the targets hide the labels already. FailedPrecondition where these were never
  // drawn. sum_kl = run_sum_kl = max(2 (1 - 2 rho) epsilon, 2 Phi^-1(1 - rho)^2): the divergence of the two
  // distributions of y' or, where that is more, of Gaussian classes with the AUC 1 - rho, so that GaussianAucBound of
  // it is never too small.
  absl::StatusOr<ProtectionReport> PerturbWithin(ConstMatrixView gradients, absl::Span<const uint8_t> labels,
                                                 const NoisePosition& position, double max_sum_kl,
                                                 Matrix& out) override;
  bool is_passthrough() const override { return true; }
  std::string name() const override;

 private:
  const double epsilon_;
  const double rho_;
  const SecretKey key_;
  bool drawn_ = false;
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_PROTECTION_LABEL_DP_PROTECTION_H_
