// Labels with discrete Gaussian noise: all that gaussian_label_dp trains what leaves on.
#ifndef SPLITVEIL_LABEL_PARTY_LABEL_PRIVACY_NOISED_LABELS_H_
#define SPLITVEIL_LABEL_PARTY_LABEL_PRIVACY_NOISED_LABELS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/crypto/label_noise.h"
#include "common/crypto/secure_random.h"
#include "common/dataset/task.h"
#include "common/privacy/label_privacy.h"
#include "label_party/label_privacy/label_targets.h"
#include "label_party/label_privacy/privacy_account.h"

#include "splitveil/v1/protection.pb.h"

namespace splitveil {

// The noise that `config` asks for, in grid units (common/crypto/label_noise.h): by which an account knows the release.
// Errors: as NoisedLabels::Create.
absl::StatusOr<uint32_t> PlannedSigmaUnits(const v1::GradientProtection::GaussianLabelDp& config, const Task& task);

// y + sigma xi of every example, y being 0 or 1, a class as 1 among 0s, or a number in [0, 1]: one release, from which
// all that leaves is computed. One draw with all of a budget is worth more than a schedule of several: the mean of
// those, weighted by 1 / sigma^2, has the noise of this one, and would be known in the last epoch only. What the
// release head makes of it: likelihood_correction. What it protects: gaussian_label_dp_planner.h. Not thread-safe.
class NoisedLabels final : public LabelTargets {
 public:
  // The noise is that of `key`, and nothing counts it. Errors: InvalidArgument, with field, expected and found, where
  // the configured strength is no noise that can be drawn (PlanLabelNoise).
  static absl::StatusOr<std::shared_ptr<NoisedLabels>> Create(const v1::GradientProtection::GaussianLabelDp& config,
                                                              const Task& task, const SecretKey& key);
  // The noise is the account's: an example that it has released at this strength gets the same. The account counts the
  // targets before they are given out, so that their errors are its own, and its halt. Errors: the same.
  static absl::StatusOr<std::shared_ptr<NoisedLabels>> Create(const v1::GradientProtection::GaussianLabelDp& config,
                                                              const Task& task,
                                                              std::unique_ptr<PrivacyAccount> account);

  absl::StatusOr<std::vector<float>> TrainingTargets(absl::Span<const NoiseRow> examples,
                                                     absl::Span<const float> labels) override;
  bool drawn() const override { return drawn_; }
  bool needs_release_head() const override { return true; }
  // 0 of a regression, whose predictions are no prior.
  double target_noise() const override { return corrects_ && task_.kind != Task::Kind::kRegression ? sigma() : 0; }
  std::optional<AccountedReleases> accounted() const override { return accounted_; }

  // As drawn: the configured one rounded up to the grid.
  double sigma() const { return noise_.sigma(0); }
  // Of all that is computed from the targets, in whatever number of releases.
  const LabelPrivacy& privacy() const { return privacy_; }

 private:
  NoisedLabels(const Task& task, LabelNoise noise, LabelPrivacy privacy, bool corrects,
               std::unique_ptr<PrivacyAccount> account)
      : task_(task), noise_(std::move(noise)), privacy_(privacy), corrects_(corrects), account_(std::move(account)) {}

  const Task task_;
  LabelNoise noise_;
  const LabelPrivacy privacy_;
  const bool corrects_;                            // likelihood_correction
  const std::unique_ptr<PrivacyAccount> account_;  // Null: nothing counts.
  bool drawn_ = false;
  std::optional<AccountedReleases> accounted_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_LABEL_PRIVACY_NOISED_LABELS_H_
