#include "common/privacy/gaussian_privacy.h"

#include <boost/math/special_functions/erf.hpp>
#include <cmath>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace splitveil {
namespace {

namespace policies = boost::math::policies;

// Boost must not throw: arguments out of range are handled before, and an overflow gives the limit.
using NoException =
    policies::policy<policies::domain_error<policies::ignore_error>, policies::pole_error<policies::ignore_error>,
                     policies::overflow_error<policies::ignore_error>,
                     policies::evaluation_error<policies::ignore_error>>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Where the searches end: beyond this, rounding of DeltaAt decides.
constexpr double kRelativeWidth = 1e-13;
constexpr int kMaxHalvings = 2100;  // From the largest double to the smallest.
constexpr long double kSqrtHalfPi = 1.25331413731550025120788264240552263L;
constexpr long double kSqrt2 = 1.41421356237309504880168872420969808L;

// P(N(0, 1) > x). In long double, like what follows: differences of these values cancel up to six digits.
long double UpperTail(long double x) { return std::erfc(x / kSqrt2) / 2; }

// UpperTail(x) / density(x), x >= 0: the Mills ratio. Above kContinued by the continued fraction 1/(x + 1/(x + 2/(x +
// 3/(x + ... (Laplace 1805), which neither underflows nor cancels.
long double MillsRatio(long double x) {
  constexpr long double kContinued = 6;
  constexpr int kTerms = 120;
  if (x < kContinued) {
    return kSqrtHalfPi * std::exp(x * x / 2) * std::erfc(x / kSqrt2);
  }
  long double tail = x;
  for (int term = kTerms; term >= 1; --term) {
    tail = x + static_cast<long double>(term) / tail;
  }
  return 1 / tail;
}

long double Density(long double x) { return std::exp(-x * x / 2) / (2 * kSqrtHalfPi); }

// The middle of [low, high], geometric if they are far apart: a root of 1e-10 takes no more steps than a root of 1.
double Middle(double low, double high) {
  if (low == 0) {
    return high > 1e-3 ? high / 16 : high / 65536;
  }
  return high > 2 * low ? std::sqrt(low) * std::sqrt(high) : low + (high - low) / 2;
}

}  // namespace

double NormalCdf(double x) { return std::erfc(-x / static_cast<double>(kSqrt2)) / 2; }

double NormalQuantile(double p) {
  if (!(p >= 0 && p <= 1)) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  if (p == 0 || p == 1) {
    return p == 0 ? -kInfinity : kInfinity;
  }
  return -static_cast<double>(kSqrt2) * boost::math::erfc_inv(2 * p, NoException());
}

absl::StatusOr<GaussianPrivacy> GaussianPrivacy::FromMu(double mu) {
  if (!(mu >= 0)) {
    return absl::InvalidArgumentError(absl::StrCat("Gaussian privacy: expected mu >= 0, found ", mu));
  }
  return GaussianPrivacy(mu);
}

absl::StatusOr<GaussianPrivacy> GaussianPrivacy::FromSigma(double sigma, double sensitivity) {
  if (!(sigma > 0)) {
    return absl::InvalidArgumentError(absl::StrCat("Gaussian privacy: expected sigma > 0, found ", sigma));
  }
  if (!(sensitivity >= 0 && std::isfinite(sensitivity))) {
    return absl::InvalidArgumentError(
        absl::StrCat("Gaussian privacy: expected a finite sensitivity >= 0, found ", sensitivity));
  }
  // The definition: two laws N(0, sigma^2) whose means lie at most `sensitivity` apart (Dong, Roth and Su, JRSS B
  // 2022).
  return GaussianPrivacy(sensitivity / sigma);
}

absl::StatusOr<GaussianPrivacy> GaussianPrivacy::FromAucBound(double auc) {
  if (!(auc >= 0.5 && auc <= 1)) {
    return absl::InvalidArgumentError(absl::StrCat("Gaussian privacy: expected an AUC bound in [0.5, 1], found ", auc));
  }
  // From below 1/2, where the quantile of a double is precise: auc - 1/2 and 1 - auc are exact.
  return GaussianPrivacy(auc == 0.5 ? 0.0 : -static_cast<double>(kSqrt2) * NormalQuantile(1 - auc));
}

absl::StatusOr<GaussianPrivacy> GaussianPrivacy::FromEpsilonDelta(double epsilon, double delta) {
  if (!(epsilon >= 0 && std::isfinite(epsilon))) {
    return absl::InvalidArgumentError(
        absl::StrCat("Gaussian privacy: expected a finite epsilon >= 0, found ", epsilon));
  }
  if (!(delta > 0 && delta < 1)) {
    return absl::InvalidArgumentError(absl::StrCat("Gaussian privacy: expected 0 < delta < 1, found ", delta));
  }
  // DeltaAt grows with mu: low always keeps the promise, high never.
  double low = 0;
  // Doubling finds an end that breaks the promise; DeltaAt tends to 1, so there is one.
  double high = 1;
  while (GaussianPrivacy(high).DeltaAt(epsilon) <= delta) {
    low = high;
    high *= 2;
  }
  for (int i = 0; i < kMaxHalvings && high - low > kRelativeWidth * high; ++i) {
    const double middle = Middle(low, high);
    (GaussianPrivacy(middle).DeltaAt(epsilon) <= delta ? low : high) = middle;
  }
  // The end that keeps the promise, so rounding makes the noise a little larger and never smaller.
  return GaussianPrivacy(low);
}

GaussianPrivacy GaussianPrivacy::Compose(absl::Span<const GaussianPrivacy> parts) {
  // Squares of mu add over independent releases (Dong, Roth and Su).
  double mu = 0;
  for (const GaussianPrivacy& part : parts) {
    // hypot, since the square of a large mu would overflow.
    mu = std::hypot(mu, part.mu_);
  }
  return GaussianPrivacy(mu);
}

// The area under the Gaussian trade-off curve, exact for the best test.
double GaussianPrivacy::AucBound() const { return NormalCdf(mu_ / static_cast<double>(kSqrt2)); }

double GaussianPrivacy::TprBound(double fpr) const {
  // A rate that is none bounds nothing.
  if (!(fpr >= 0 && fpr <= 1)) {
    return 1;
  }
  if (fpr == 0 || fpr == 1) {
    return std::isinf(mu_) ? 1 : fpr;  // -inf + inf would be NaN.
  }
  return NormalCdf(NormalQuantile(fpr) + mu_);
}

double GaussianPrivacy::DeltaAt(double epsilon) const {
  if (!(epsilon >= 0) || std::isinf(mu_)) {
    return 1;
  }
  // The two laws are the same, and reveal nothing.
  if (mu_ == 0) {
    return 0;
  }
  const long double mu = mu_;
  // Theorem 8 of Balle and Wang in terms of tails: UpperTail(near) - e^epsilon UpperTail(far).
  const long double near = epsilon / mu - mu / 2;
  const long double far = epsilon / mu + mu / 2;
  // e^epsilon density(far) = density(near), so that neither the exponential nor the tails overflow or underflow.
  // Two forms: where both tails are small their difference cancels, and the common density is taken out first.
  const long double delta = near >= 0 ? Density(near) * (MillsRatio(near) - MillsRatio(far))
                                      : UpperTail(near) - Density(near) * MillsRatio(far);
  return delta > 0 ? static_cast<double>(delta < 1 ? delta : 1) : 0;
}

double GaussianPrivacy::EpsilonAt(double delta) const {
  if (!(delta >= 0 && delta <= 1)) {
    return kInfinity;
  }
  if (DeltaAt(0) <= delta) {
    return 0;
  }
  if (delta == 0 || std::isinf(mu_)) {
    return kInfinity;
  }
  // DeltaAt falls as epsilon grows: high always keeps the promise, low never.
  double low = 0;
  double high = 1;
  while (DeltaAt(high) > delta) {
    low = high;
    high *= 2;
  }
  for (int i = 0; i < kMaxHalvings && high - low > kRelativeWidth * high; ++i) {
    const double middle = Middle(low, high);
    (DeltaAt(middle) <= delta ? high : low) = middle;
  }
  // The end that keeps the promise: the epsilon that is stated may be too large but never too small.
  return high;
}

}  // namespace splitveil
