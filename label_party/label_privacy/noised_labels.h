// Noise on labels: discrete Gaussian (gaussian_label_dp), or flips at random (label_dp).
#ifndef SPLITVEIL_LABEL_PARTY_LABEL_PRIVACY_NOISED_LABELS_H_
#define SPLITVEIL_LABEL_PARTY_LABEL_PRIVACY_NOISED_LABELS_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
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
#include "common/privacy_account/privacy_account.h"
#include "label_party/label_privacy/label_targets.h"

#include "splitveil/v1/protection.pb.h"

namespace splitveil {

// The noise that gaussian_label_dp or label_dp asks for, planned_epochs filled in (FillPlannedEpochs; 0 counts as 1):
// by which an account knows the releases. Each strength once; none of other methods. Errors: as NoisedLabels::Create.
absl::StatusOr<std::vector<NoiseReleases>> PlannedReleases(const v1::GradientProtection& config, const Task& task);

// y + sigma xi of every example, y being 0 or 1, a class as 1 among 0s, or a number in [0, 1]: one release, or one in
// each planned epoch, from which all that leaves is computed. At the same mu of the run, several draws have more noise
// each, and a model that learns from another draw in every epoch averages over them where it would learn a single one
// by heart: what that is worth is in deploy/examples/criteo_deep/EXPERIMENTS.md. What the release head makes of it:
// likelihood_correction. What it protects: GaussianLabelDpMethod. Thread-safe as LabelTargets.
class NoisedLabels final : public LabelTargets {
 public:
  // The noise is that of `key`, and nothing counts it. Errors: InvalidArgument, with field, expected and found, where
  // the configured strength is no noise that can be drawn (PlanLabelNoise).
  static absl::StatusOr<std::shared_ptr<NoisedLabels>> Create(const v1::GradientProtection::GaussianLabelDp& config,
                                                              const Task& task, const SecretKey& key);
  // The noise is the account's: an example that it has released at this strength gets the same. Count has it count the
  // targets of all planned epochs before the first are given out: errors of Count are its own, and its halt. Errors:
  // the same.
  static absl::StatusOr<std::shared_ptr<NoisedLabels>> Create(const v1::GradientProtection::GaussianLabelDp& config,
                                                              const Task& task,
                                                              std::unique_ptr<PrivacyAccount> account);

  absl::Status Count(absl::string_view run_id, absl::Span<const NoiseRow> examples,
                     absl::Span<const float> labels) override;
  absl::StatusOr<std::vector<float>> TrainingTargets(absl::Span<const NoiseRow> examples,
                                                     absl::Span<const float> labels, uint32_t epoch) override;
  uint32_t draws() const override { return static_cast<uint32_t>(draws_.size()); }
  bool drawn() const override { return drawn_; }
  bool needs_release_head() const override { return true; }
  // 0 of a regression, whose predictions are no prior.
  double target_noise(uint32_t epoch) const override {
    return corrects_ && task_.kind != Task::Kind::kRegression ? sigma(epoch) : 0;
  }
  std::optional<AccountedReleases> accounted() const override { return accounted_; }

  // Of the draw of `epoch`: the configured or planned one rounded up to the grid.
  double sigma(uint32_t epoch) const { return draws_[DrawOf(epoch)].sigma; }
  // Of all that is computed from the targets, in whatever number of releases.
  const LabelPrivacy& privacy() const { return privacy_; }
  // mu^2 of the targets of `epoch` by themselves, and of those and all earlier ones.
  double sum_kl(uint32_t epoch) const { return draws_[DrawOf(epoch)].sum_kl; }
  double sum_kl_so_far(uint32_t epoch) const { return draws_[DrawOf(epoch)].sum_kl_so_far; }
  // Whether the targets of all epochs are the same.
  bool releases_repeat() const { return draws() == 1; }

 private:
  struct Draw {
    size_t strength = 0;  // Of noise_.
    uint32_t number = 0;  // Within it.
    double sigma = 0;
    double sum_kl = 0, sum_kl_so_far = 0;
  };
  struct Plan {
    std::vector<NoiseReleases> releases;
    std::vector<Draw> draws;
    LabelPrivacy run;
  };

  NoisedLabels(const v1::GradientProtection::GaussianLabelDp& config, const Task& task, std::vector<LabelNoise> noise,
               Plan plan, std::unique_ptr<PrivacyAccount> account);

  friend absl::StatusOr<std::vector<NoiseReleases>> PlannedReleases(const v1::GradientProtection& config,
                                                                    const Task& task);
  static absl::StatusOr<Plan> PlanOf(const v1::GradientProtection::GaussianLabelDp& config, const Task& task);
  static Plan Schedule(const Task& task, absl::Span<const uint32_t> sigma_units, const LabelPrivacy& run);

  uint32_t DrawOf(uint32_t epoch) const { return std::min(epoch, draws() - 1); }

  const Task task_;
  const bool corrects_;  // likelihood_correction
  const std::vector<NoiseReleases> releases_;
  const std::vector<Draw> draws_;  // By epoch.
  const LabelPrivacy privacy_;
  const std::vector<LabelNoise> noise_;            // Of each of releases_.
  const std::unique_ptr<PrivacyAccount> account_;  // Null: nothing counts.
  std::atomic<bool> drawn_ = false;
  std::optional<AccountedReleases> accounted_;
};

// Flips each label once, with probability rho = 1 / (1 + e^epsilon), and gives the target (y' - rho) / (1 - 2 rho) of
// the flipped label y'. Its mean is the true label (Natarajan et al., "Learning with noisy labels", NeurIPS 2013, lemma
// 1), and the derivative of the log loss is linear in the target, so that gradients are unbiased over the flips. What
// that protects: LabelDpMethod.
//
// y' is whether one release of NoisedLabels, y + sigma xi with sigma = 1 / (2 Phi^-1(1 - rho)), is above 1/2. So an
// account counts it as that release: it discloses at most as much, together with whatever else, and a later run has the
// same flips for nothing. sigma is rounded up so far that neither label flips with less than rho, although noise that
// is exactly 1/2 flips a 1 only; a flip is likelier by a share of at most 2.5e-3. Thread-safe as LabelTargets.
class LabelRandomizer final : public LabelTargets {
 public:
  // rho from 0.4998 to 1e-13.
  static constexpr double kMinEpsilon = 1e-3, kMaxEpsilon = 30;

  // epsilon in [kMinEpsilon, kMaxEpsilon]. The flips are those of `key`, and nothing counts them.
  static absl::StatusOr<std::shared_ptr<LabelRandomizer>> Create(double epsilon, const SecretKey& key);
  // The flips are those of the account, which counts them as NoisedLabels has them counted.
  static absl::StatusOr<std::shared_ptr<LabelRandomizer>> Create(double epsilon,
                                                                 std::unique_ptr<PrivacyAccount> account);

  absl::Status Count(absl::string_view run_id, absl::Span<const NoiseRow> examples,
                     absl::Span<const float> labels) override {
    return noised_->Count(run_id, examples, labels);
  }
  // The flips are the same in all epochs.
  absl::StatusOr<std::vector<float>> TrainingTargets(absl::Span<const NoiseRow> examples,
                                                     absl::Span<const float> labels, uint32_t epoch) override;

  double epsilon() const { return epsilon_; }
  double rho() const { return rho_; }
  // mu^2 of the noise that the flips are made of: what they add at most to whatever else is released.
  double noise_sum_kl() const { return noised_->privacy().mu() * noised_->privacy().mu(); }
  bool drawn() const override { return noised_->drawn(); }
  bool needs_release_head() const override { return false; }
  double target_noise(uint32_t) const override { return 0; }
  std::optional<AccountedReleases> accounted() const override { return noised_->accounted(); }

 private:
  LabelRandomizer(double epsilon, std::shared_ptr<NoisedLabels> noised);

  const double epsilon_;
  const double rho_;
  const std::shared_ptr<NoisedLabels> noised_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_LABEL_PRIVACY_NOISED_LABELS_H_
