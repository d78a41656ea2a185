// Labels with discrete Gaussian noise: all that gaussian_label_dp trains what leaves on.
#ifndef SPLITVEIL_LABEL_PARTY_PROTECTION_NOISED_LABELS_H_
#define SPLITVEIL_LABEL_PARTY_PROTECTION_NOISED_LABELS_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/crypto/label_noise.h"
#include "common/crypto/secure_random.h"
#include "common/privacy/gaussian_privacy.h"
#include "label_party/protection/label_targets.h"

#include "splitveil/v1/protection.pb.h"

namespace splitveil {

// y + sigma xi of every example, drawn once. What the release head makes of them: likelihood_correction. What that
// protects: gaussian_label_dp_planner.h. Not thread-safe.
class NoisedLabels final : public LabelTargets {
 public:
  // The noise is that of `key`. Errors: InvalidArgument, with field, expected and found, where the configured strength
  // is no noise that can be drawn (SigmaUnits).
  static absl::StatusOr<std::shared_ptr<NoisedLabels>> Create(const v1::GradientProtection::GaussianLabelDp& config,
                                                              const SecretKey& key);

  std::vector<float> TrainingTargets(absl::Span<const uint8_t> labels) override;
  bool drawn() const override { return drawn_; }
  bool needs_release_head() const override { return true; }
  double target_noise() const override { return corrects_ ? sigma() : 0; }

  // As drawn: the configured one rounded up to the grid.
  double sigma() const { return noise_.sigma(0); }
  // Of all that is computed from the targets, in whatever number of releases.
  GaussianPrivacy privacy() const { return privacy_; }

 private:
  NoisedLabels(LabelNoise noise, GaussianPrivacy privacy, bool corrects)
      : noise_(std::move(noise)), privacy_(privacy), corrects_(corrects) {}

  LabelNoise noise_;
  const GaussianPrivacy privacy_;
  const bool corrects_;  // likelihood_correction
  bool drawn_ = false;
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_PROTECTION_NOISED_LABELS_H_
