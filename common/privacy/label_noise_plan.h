// From what a run may disclose of a label to the noise of each release, and back.
#ifndef SPLITVEIL_COMMON_PRIVACY_LABEL_NOISE_PLAN_H_
#define SPLITVEIL_COMMON_PRIVACY_LABEL_NOISE_PLAN_H_

#include <cstdint>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/privacy/label_privacy.h"

namespace splitveil {

// How strong the protection is, in one of four ways.
// Standard deviation of the noise of the first release, in label units: 1 is from label 0 to label 1.
struct FirstReleaseSigma {
  double sigma = 0;
};
// Of all releases of an example together.
struct RunMu {
  double mu = 0;
};
struct RunEpsilonDelta {
  double epsilon = 0;
  double delta = 0;
};
// Largest AUC of an adversary that remembers all releases.
struct RunAucBound {
  double auc_bound = 0.5;
};
using LabelNoiseStrength = std::variant<FirstReleaseSigma, RunMu, RunEpsilonDelta, RunAucBound>;

enum class NoiseSchedule {
  kConstant,        // Every release has the same noise.
  kGrowing,         // The noise power grows by a factor from release to release: learns most early.
  kFirstThenFrozen  // The first ones have the same noise; later ones show nothing new (see LabelNoisePlan).
};

struct LabelNoisePlanOptions {
  LabelKind label_kind = LabelKind::kBinary;
  LabelNoiseStrength strength;
  // Releases of each example in the run: epochs, where each is released once per epoch. 1 to 2^20.
  uint32_t releases = 1;
  NoiseSchedule schedule = NoiseSchedule::kConstant;
  // kGrowing: sigma^2 of a release relative to the one before. Positive and finite; below 1 learns most late. As
  // noise_growth_per_epoch of a run budget.
  double noise_growth_per_release = 1;
  // kFirstThenFrozen: how many releases have noise of their own, 1 to `releases`.
  uint32_t noisy_releases = 1;
};

struct LabelNoisePlan {
  // Noise of each release that draws any, in grid units (common/crypto/label_noise.h), rounded up. As many as
  // `releases`, or as `noisy_releases` where later ones are frozen: then either nothing more is released, or what is
  // released is computed of noisy labels that left before, of all of them at best (their mean, weighted by 1/sigma^2,
  // has noise s/mu), and of the true label in no other way.
  std::vector<uint32_t> sigma_units;
  // What all of them disclose together, of the sigmas as rounded.
  LabelPrivacy run;
};

// sigma_i^2 = sigma_0^2 growth^i with s^2 sum_i sigma_i^-2 = mu^2, the largest mu that the strength allows with the
// slack of discrete noise taken off (Dong, Roth and Su, JRSSB 2022, corollaries 2.13 and 3.3). The sigmas are then
// rounded up to the grid, so that plan.run keeps the strength: mu, AucBound() and DeltaAt(epsilon) as computed are at
// most what was asked for (mu and AUC to 1e-15), and mu below it by a share of at most 2^-20 / sigma. What a sigma on
// the grid gives as mu, AucBound() or EpsilonAt(delta), said as the strength of one release, plans that sigma again.
// Errors, InvalidArgument with field, expected and found: a strength out of range (mu > 0; epsilon >= 0, 0 < delta < 1;
// 0.5 < auc_bound < 1; and room for the slack), releases, growth or noisy_releases out of range, a sigma outside
// [2^-7, 2048). Pure; thread-safe.
absl::StatusOr<LabelNoisePlan> PlanLabelNoise(const LabelNoisePlanOptions& options);

// The way back: what releases with noise of these standard deviations disclose together, each first rounded up to the
// grid as the noise is. None disclose nothing. Errors: InvalidArgument for a sigma outside [2^-7, 2048).
absl::StatusOr<LabelPrivacy> PrivacyOfSigmas(LabelKind label_kind, absl::Span<const double> sigmas);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_PRIVACY_LABEL_NOISE_PLAN_H_
