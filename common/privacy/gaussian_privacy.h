// Gaussian differential privacy: one number, mu, for what a mechanism discloses against every adversary.
#ifndef SPLITVEIL_COMMON_PRIVACY_GAUSSIAN_PRIVACY_H_
#define SPLITVEIL_COMMON_PRIVACY_GAUSSIAN_PRIVACY_H_

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace splitveil {

// Distribution function of N(0, 1); NaN for NaN. Keeps its relative precision in the lower tail.
double NormalCdf(double x);

// Its inverse; -inf at 0, inf at 1, NaN outside [0, 1]. Keeps its relative precision for small p.
double NormalQuantile(double p);

// A mechanism is mu-GDP if telling its outputs for two neighbouring inputs apart is at least as hard as telling
// N(0, 1) from N(mu, 1) by one draw (Dong, Roth and Su, "Gaussian Differential Privacy", JRSSB 2022, arXiv:1905.02383,
// whose numbers are cited here; definition 2.6). Adding N(0, sigma^2) in every coordinate to what a neighbour moves by
// at most s in Euclidean norm is s/sigma-GDP (theorem 2.7), and so is all that is computed of the outcome, whatever the
// adversary knows besides. With neighbours that differ in the label of one example:
//   label in {0, 1} or [0, 1]   s = 1         one-hot label of k classes   s = sqrt(2)
//
// What is bounded is what the outputs add to what an adversary knew. Its AUC over examples stays below AucBound() if
// it could not rank them before; an adversary whose own features predict the label ranks by these as well.
//
// A value: 0 <= mu <= inf, smaller is more private; inf stands for no protection. Thread-safe, as all const methods.
class GaussianPrivacy {
 public:
  // Nothing is disclosed: mu = 0.
  constexpr GaussianPrivacy() = default;

  // mu >= 0. Errors: InvalidArgument for negative and NaN.
  static absl::StatusOr<GaussianPrivacy> FromMu(double mu);

  // mu = s / sigma (theorem 2.7). Sensitivity s >= 0 and finite; sigma > 0, inf included. Errors: InvalidArgument.
  static absl::StatusOr<GaussianPrivacy> FromSigma(double sigma, double sensitivity = 1);

  // The mu whose AucBound() is `auc`, in [0.5, 1]. Errors: InvalidArgument.
  static absl::StatusOr<GaussianPrivacy> FromAucBound(double auc);

  // The largest mu that implies (epsilon, delta)-differential privacy (corollary 2.13), to about 1e-12 of it. Rounded
  // down: DeltaAt(epsilon) <= delta as computed. epsilon >= 0 and finite, 0 < delta < 1. Errors: InvalidArgument, also
  // for delta 0, which no mu > 0 achieves.
  static absl::StatusOr<GaussianPrivacy> FromEpsilonDelta(double epsilon, double delta);

  // All of them done to the same example, each perhaps chosen by what came out before: sqrt(sum mu_i^2), tight
  // (corollary 3.3). 0 for none.
  static GaussianPrivacy Compose(absl::Span<const GaussianPrivacy> parts);

  double mu() const { return mu_; }

  // Largest area under the curve TprBound: Phi(mu / sqrt(2)). In [0.5, 1].
  double AucBound() const;

  // Largest true positive rate of a test with this false positive rate: Phi(Phi^-1(fpr) + mu) (equation 6: 1 - G_mu).
  // fpr in [0, 1]; 1 for anything else (fail closed).
  double TprBound(double fpr) const;

  // Smallest delta of (epsilon, delta)-differential privacy (corollary 2.13; Balle and Wang, ICML 2018, theorem 8):
  //   Phi(-epsilon/mu + mu/2) - e^epsilon Phi(-epsilon/mu - mu/2).
  // Relative error below 1e-9 down to 1e-290 for mu in [1e-4, 40] and epsilon <= 700; never negative; no overflow for
  // any mu and epsilon. 1 for a negative or NaN epsilon and for mu = inf (fail closed).
  double DeltaAt(double epsilon) const;

  // Smallest epsilon of (epsilon, delta)-differential privacy, to about 1e-12 of it. Rounded up: DeltaAt of it is at
  // most delta as computed. inf for delta 0 (unless mu is 0), delta outside [0, 1), NaN, and mu = inf (fail closed); 0
  // for delta = 1.
  double EpsilonAt(double delta) const;

 private:
  explicit constexpr GaussianPrivacy(double mu) : mu_(mu) {}

  double mu_ = 0;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_PRIVACY_GAUSSIAN_PRIVACY_H_
