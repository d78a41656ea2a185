// The label side of a protection: what is trained on in place of the labels.
#ifndef SPLITVEIL_LABEL_PARTY_PROTECTION_LABEL_RANDOMIZER_H_
#define SPLITVEIL_LABEL_PARTY_PROTECTION_LABEL_RANDOMIZER_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

#include "common/crypto/secure_random.h"

namespace splitveil {

// Flips each label once, with probability rho = 1 / (1 + e^epsilon), and gives the target (y' - rho) / (1 - 2 rho) of
// the flipped label y'. Its mean is the true label (Natarajan et al., "Learning with noisy labels", NeurIPS 2013, lemma
// 1), and the derivative of the log loss is linear in the target, so that gradients are unbiased over the flips. What
// that protects: label_dp_planner.h. Not thread-safe.
class LabelRandomizer {
 public:
  static constexpr double kMaxEpsilon = 30;  // rho = 1e-13; drawn from 64 bits.

  // epsilon in (0, kMaxEpsilon]. The flips are those of `key`.
  LabelRandomizer(double epsilon, SecretKey key);

  // What to train on instead of `labels`. The same for the same key: label j's flip is decided by the j-th 64 bits of
  // AES-256-CTR under it. Call it once for a run, before the first batch.
  std::vector<float> TrainingTargets(absl::Span<const uint8_t> labels);

  double epsilon() const { return epsilon_; }
  double rho() const { return rho_; }
  // Whether targets have been given out: gradients of the labels themselves must not leave.
  bool drawn() const { return drawn_; }

 private:
  const double epsilon_;
  const double rho_;
  const SecretKey key_;
  bool drawn_ = false;
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_PROTECTION_LABEL_RANDOMIZER_H_
