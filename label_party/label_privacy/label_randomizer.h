// Randomised response: labels that are flipped at random.
#ifndef SPLITVEIL_LABEL_PARTY_LABEL_PRIVACY_LABEL_RANDOMIZER_H_
#define SPLITVEIL_LABEL_PARTY_LABEL_PRIVACY_LABEL_RANDOMIZER_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/crypto/secure_random.h"
#include "label_party/label_privacy/label_targets.h"

namespace splitveil {

// Flips each label once, with probability rho = 1 / (1 + e^epsilon), and gives the target (y' - rho) / (1 - 2 rho) of
// the flipped label y'. Its mean is the true label (Natarajan et al., "Learning with noisy labels", NeurIPS 2013, lemma
// 1), and the derivative of the log loss is linear in the target, so that gradients are unbiased over the flips. What
// that protects: LabelDpMethod. Not thread-safe.
class LabelRandomizer final : public LabelTargets {
 public:
  static constexpr double kMaxEpsilon = 30;  // rho = 1e-13; drawn from 64 bits.

  // epsilon in (0, kMaxEpsilon]. The flips are those of `key`.
  LabelRandomizer(double epsilon, SecretKey key);

  // Label j's flip is decided by the j-th 64 bits of AES-256-CTR under the key, once for all epochs.
  absl::StatusOr<std::vector<float>> TrainingTargets(absl::Span<const NoiseRow> examples,
                                                     absl::Span<const float> labels, uint32_t epoch) override;

  double epsilon() const { return epsilon_; }
  double rho() const { return rho_; }
  bool drawn() const override { return drawn_; }
  bool needs_release_head() const override { return false; }
  double target_noise(uint32_t) const override { return 0; }
  std::optional<AccountedReleases> accounted() const override { return std::nullopt; }

 private:
  const double epsilon_;
  const double rho_;
  const SecretKey key_;
  bool drawn_ = false;
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_LABEL_PRIVACY_LABEL_RANDOMIZER_H_
