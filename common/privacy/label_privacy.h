// What a run with noisy labels discloses of one label, in rigorous figures: the noise is discrete, not quite Gaussian.
#ifndef SPLITVEIL_COMMON_PRIVACY_LABEL_PRIVACY_H_
#define SPLITVEIL_COMMON_PRIVACY_LABEL_PRIVACY_H_

#include <cstdint>

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

// Largest Euclidean distance between two labels: 1, or sqrt(2) where two components change.
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
// which noise leaves with probability 2 e^-800, also where the label shifts it by 2^20. Infinite for 0 (fail closed).
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
  // made of noisy labels that have already left, are not listed: they disclose nothing further. Errors: InvalidArgument
  // for a sigma of 0.
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
  // Rounded up: DeltaAt of it is at most delta as computed. inf where there is none, as for delta 0.
  double EpsilonAt(double delta) const;
  // The largest mu whose DeltaAt(epsilon) is at most delta with this slack. Errors: InvalidArgument as
  // GaussianPrivacy::FromEpsilonDelta, and where the slack leaves nothing.
  static absl::StatusOr<GaussianPrivacy> MuForEpsilonDelta(double epsilon, double delta, double slack);

 private:
  constexpr LabelPrivacy(GaussianPrivacy gaussian, double slack) : gaussian_(gaussian), slack_(slack) {}

  GaussianPrivacy gaussian_;
  double slack_ = 0;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_PRIVACY_LABEL_PRIVACY_H_
