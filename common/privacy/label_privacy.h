// What a run with noisy labels discloses of one label, in rigorous figures: the noise is discrete, not quite Gaussian.
// Besides, the noise that a guarantee takes, and what flips and noise on one label disclose together.
#ifndef SPLITVEIL_COMMON_PRIVACY_LABEL_PRIVACY_H_
#define SPLITVEIL_COMMON_PRIVACY_LABEL_PRIVACY_H_

#include <cstdint>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/privacy/gaussian_privacy.h"

namespace splitveil {

// What is released with noise. Privacy accounts keep the numbers.
enum class LabelKind {
  kBinary = 0,        // 0 or 1, one noise component.
  kOneHot = 1,        // One of k classes as k numbers, one of them 1, with a noise component each.
  kUnitInterval = 2,  // A number in [0, 1], put on the grid before noise is added (LabelOnGrid), one component.
  // No label: a row of activations, clipped, with Gaussian noise, which has no slack. Its unit is the largest distance
  // of two rows, twice the norm to which they are clipped.
  kActivations = 3,
};

// Largest Euclidean distance between two labels: 1, or sqrt(2) if two components change.
double LabelSensitivity(LabelKind kind);

// How far one noisy component is from the Gaussian mechanism rounded to the grid: the probabilities of every outcome
// are within factors e^u and e^-l of each other, u + l at most this, (T^2/24 + 1/23) / sigma^2 with T = 40 + 2^20 /
// sigma, outside of an event of probability e^-800. In grid units, sigma >= 1, with g the density of N(0, sigma^2),
// G(x) its integral over [x - 1/2, x + 1/2], which is what rounding gives, and P(x) = e^(-x^2 / (2 sigma^2)) / S what
// is drawn:
//   G(x) / g(x) = int_{-1/2}^{1/2} e^(-w^2 / (2 sigma^2)) cosh(x w / sigma^2) dw
// is at least 1 - 1 / (24 sigma^2), and at most sinh(v) / v <= e^(v^2/6), v = x / (2 sigma^2); and by Poisson's
// summation
//   P(x) / g(x) = 1 / (1 + 2 sum_{k>=1} e^(-2 pi^2 sigma^2 k^2)), between 1 - 6e-9 / sigma^2 and 1.
// So P / G <= e^(1 / (23 sigma^2)) everywhere, and P / G >= e^(-T^2 / (24 sigma^2) - 6e-9 / sigma^2) within T sigma,
// which noise leaves with probability 2 e^-800, even if the label shifts it by 2^20. Infinite for 0 (fail closed).
double RoundingSlack(uint32_t sigma_units);

// Rounding is done after the noise, so Gaussian noise rounded to the grid is as private as Gaussian noise: exactly
// mu-GDP. The discrete Gaussian that is drawn instead (common/crypto/label_noise.h) makes every outcome at most e^slack
// times as likely or unlikely, slack being the sum of RoundingSlack over releases and changed components, and every
// bound here includes it. A run's slack is about 6e-11 mu^2, however many releases share its mu: below 1e-9 up to mu
// = 3.
//
// A value. Thread-safe, as all const methods.
class LabelPrivacy {
 public:
  // Nothing is disclosed.
  constexpr LabelPrivacy() = default;

  // All releases of one example's label, release i with discrete Gaussian noise of `sigma_units[i]` grid units in every
  // component. mu = s sqrt(sum sigma_i^-2) (Dong et al., theorem 2.7 and corollary 3.3). Frozen releases, which are
  // made of noisy labels that were already released, are not listed: they disclose nothing further. Errors:
  // InvalidArgument for a sigma of 0.
  static absl::StatusOr<LabelPrivacy> OfReleases(LabelKind kind, absl::Span<const uint32_t> sigma_units);

  // Several runs on the same labels, each with noise of its own.
  static LabelPrivacy Compose(absl::Span<const LabelPrivacy> runs);

  // The guarantee but for the slack.
  const GaussianPrivacy& gaussian() const { return gaussian_; }
  double mu() const { return gaussian_.mu(); }
  // See above; nats.
  double slack() const { return slack_; }

  // As in GaussianPrivacy, with the slack, and 1e-300 for what happens with probability e^-800 a release. At most 1
  // each:
  //   AUC + e^slack - 1                     pairs differ by 2 (e^u - 1) in total variation, and u < l
  //   e^slack TPR(e^slack fpr)              P1 <= e^u G1, and P0 >= e^-l G0
  //   e^slack delta(epsilon - slack)        of P1 - e^epsilon P0 <= e^u (G1 - e^(epsilon - u - l) G0); below epsilon 0,
  //                                         delta(0) - epsilon is above delta
  double AucBound() const;
  double TprBound(double fpr) const;
  double DeltaAt(double epsilon) const;
  // Rounded up: DeltaAt of it is at most delta as computed. inf if there is none, as for delta 0.
  double EpsilonAt(double delta) const;
  // The largest mu whose DeltaAt(epsilon) is at most delta with this slack. Errors: InvalidArgument as
  // GaussianPrivacy::FromEpsilonDelta, and if the slack leaves nothing.
  static absl::StatusOr<GaussianPrivacy> MuForEpsilonDelta(double epsilon, double delta, double slack);

 private:
  constexpr LabelPrivacy(GaussianPrivacy gaussian, double slack) : gaussian_(gaussian), slack_(slack) {}

  GaussianPrivacy gaussian_;
  double slack_ = 0;
};

// The largest AUC with which anyone tells two values of a label apart by all releases of it: Gaussian ones whose mu^2
// add to `mu_squared`, and a flip with probability 1 / (1 + e^epsilon) for each of `epsilons`, drawn independently. The
// AUC of the likelihood ratio of the product, which by composition (Dong, Roth, Su, JRSSB 2022, theorem 3.2) bounds
// every adversary, also one that chooses each release by the earlier ones:
//   E[Phi((mu^2 + D) / (sqrt 2 mu))], D = 2 sum_i epsilon_i (B_i - 1), B_i ~ Bin(2, e^epsilon_i / (1 + e^epsilon_i)),
// and without Gaussian noise P(D > 0) + P(D = 0) / 2. Exact while D has at most 65,536 values; flips beyond that, the
// weakest, count as Gaussian noise that discloses more: mu = 2 Phi^-1(e^epsilon / (1 + e^epsilon)), whose trade-off
// curve passes through the only corner of a flip's, and convex curves through it lie below. In [0.5, 1]; 1 for a number
// that is negative or none (fail closed).
double ComposedAucBound(double mu_squared, std::vector<double> epsilons);

// How strong the protection is, in one of four ways.

// Standard deviation of the noise of the first release, in label units: 1 is from label 0 to label 1.
struct FirstReleaseSigma {
  double sigma = 0;
};
// mu of all releases of an example together (mu-GDP).
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
  // Releases of each example in the run: epochs, if each is released once per epoch. 1 to 2^20.
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
  // `releases`, or as `noisy_releases` if later ones are frozen: then either nothing more is released, or what is
  // released is computed from noisy labels that were released before, at best from all of them (their mean, weighted by
  // 1/sigma^2, has noise s/mu), and of the true label in no other way.
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

#endif  // SPLITVEIL_COMMON_PRIVACY_LABEL_PRIVACY_H_
