#include "common/leakage/bounds.h"

#include <algorithm>
#include <array>
#include <boost/math/special_functions/erf.hpp>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>

#include "common/leakage/attack_traits.h"
#include "common/leakage/summary.h"

namespace splitveil {
namespace {

// (x-y)^2 / (x y), by two ratios: the product of two small or two large variances may underflow or overflow.
// Equal spreads return before the division, so that two zero variances give 0 and not NaN.
double SpreadDivergence(double x, double y) {
  if (x == y) {
    return 0;
  }
  return ((x - y) / x) * ((x - y) / y);
}

// 0 / 0 is 0: two means that coincide are not told apart by a variance of zero. Anything else over 0 is infinite.
double Ratio(double numerator, double denominator) { return numerator == 0 ? 0 : numerator / denominator; }

}  // namespace

double SumKl(const GaussianClasses& classes) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  // Written with >= throughout, which NaN fails: what cannot be compared has no finite divergence, hence no bound.
  const bool valid = classes.d >= 1 && classes.dg_squared >= 0 && classes.along_neg >= 0 && classes.along_pos >= 0 &&
                     classes.across_neg >= 0 && classes.across_pos >= 0;
  if (!valid) {
    return kInfinity;
  }
  // Halved term by term: twice the sum may overflow.
  double sum_kl = SpreadDivergence(classes.along_neg, classes.along_pos) / 2 +
                  Ratio(classes.dg_squared, classes.along_neg) / 2 + Ratio(classes.dg_squared, classes.along_pos) / 2;
  // The d - 1 directions across tell the classes apart by their spread alone, since the means differ on the line only.
  if (classes.d > 1) {
    sum_kl += static_cast<double>(classes.d - 1) / 2 * SpreadDivergence(classes.across_neg, classes.across_pos);
  }
  // inf - inf or inf / inf: the inputs are too large to be compared.
  return sum_kl >= 0 ? sum_kl : kInfinity;  // NOLINT(bugprone-narrowing-conversions): a double, which LLVM 14 misses.
}

double AucBound(double sum_kl) {
  // NaN too ends here: without a divergence there is no promise.
  if (!(sum_kl >= 0 && sum_kl < 4)) {
    return 1;
  }
  // Theorem 1's parabola reaches 1 at sum_kl = 4 and would fall beyond.
  return 0.5 + std::sqrt(sum_kl) / 2 - sum_kl / 8;
}

double GaussianAucBound(double sum_kl) {
  // Negated, so that NaN also means "no bound".
  if (!(sum_kl >= 0)) {
    return 1;
  }
  return 0.5 * std::erfc(-std::sqrt(sum_kl) / 2);  // Phi(x) = erfc(-x / sqrt(2)) / 2 at x = sqrt(sum_kl / 2).
}

namespace {

constexpr double kWorstCaseShare = 3.0 / 8;  // Of the risk, for each of the two worst cases.

double UpperTail(double x) { return std::erfc(x / std::sqrt(2.0)) / 2; }

// How many attacks share the rest of the risk, beside the two worst cases: each that reads gradients, as often as it
// may run in an epoch.
// Attacks that read no gradient are not held against a bound on gradients, and so need no share.
double OtherAttacks() {
  double others = 0;
  for (const AttackTraits& traits : AllAttackTraits()) {
    others += !traits.reads_gradients() || traits.needs == SideInformation::kReleasingHead ? 0
              : traits.takes_hint_count()                                                  ? kMaxHints
                                                                                           : 1;
  }
  return others;
}

// Of an example's share V of the other class that its score beats. Sums over a grid of a standard normal variable: of a
// smooth function that vanishes at both ends they are exact to far more than is needed.
class ShareLaw {
 public:
  // `lost`: 1 - V at a value of the variable; near 1 V itself would lose all digits.
  template <typename Lost>
  explicit ShareLaw(const Lost& lost) {
    double total = 0;
    for (size_t i = 0; i < kPoints; ++i) {
      const double z = (static_cast<double>(i) - (kPoints - 1) / 2.0) * kStep;
      // The grid is symmetric about 0 and ends where the normal density is below 1e-17, so nothing beyond it counts.
      lost_[i] = lost(z);
      weights_[i] = std::exp(-z * z / 2);
      total += weights_[i];
    }
    double squares = 0;
    for (size_t i = 0; i < kPoints; ++i) {
      // Normalised by their own sum: the law then has total probability 1 whatever the step.
      weights_[i] /= total;
      mean_lost_ += weights_[i] * lost_[i];
      squares += weights_[i] * lost_[i] * lost_[i];
    }
    variance_ = squares - mean_lost_ * mean_lost_;
  }

  double mean() const { return 1 - mean_lost_; }
  double variance() const { return variance_; }

  // log E exp(t (V - E V)) with its first two derivatives.
  struct Cumulants {
    double value, slope, curvature;
  };
  Cumulants At(double t) const {
    double sum = 0, first = 0, second = 0;
    for (size_t i = 0; i < kPoints; ++i) {
      const double weight = weights_[i] * std::exp(-t * lost_[i]);
      sum += weight;
      first += weight * lost_[i];
      second += weight * lost_[i] * lost_[i];
    }
    const double lost = first / sum;
    // In terms of 1 - V, whose exponent is never above 0 for t >= 0: nothing overflows at the large t of a small tail.
    return {std::log(sum) + t * mean_lost_, mean_lost_ - lost, second / sum - lost * lost};
  }

 private:
  static constexpr size_t kPoints = 145;
  static constexpr double kStep = 0.125;  // To 9 standard deviations on either side.

  std::array<double, kPoints> lost_ = {}, weights_ = {};
  double mean_lost_ = 0, variance_ = 0;
};

// The examples of one class, and the law of each one's share.
struct ClassShares {
  const ShareLaw& law;
  int64_t count;
};

// The cumulants of an AUC: of the two classes' mean shares together, with effective numbers of examples.
class AucLaw {
 public:
  AucLaw(const ClassShares& a, const ClassShares& b) : classes_{a, b} {
    const auto of_a = static_cast<double>(a.count), of_b = static_cast<double>(b.count);
    // Hajek's projection: each example by itself.
    const double by_one = a.law.variance() / of_a + b.law.variance() / of_b;
    // The exact variance of a Mann-Whitney statistic, of which single examples explain by_one; fewer effective examples
    // make up for the rest.
    variance_ = (mean() * (1 - mean()) + (of_b - 1) * a.law.variance() + (of_a - 1) * b.law.variance()) / (of_a * of_b);
    scale_ = by_one / variance_;
  }

  // Either class gives the same mean: both are the probability that a positive beats a negative.
  double mean() const { return classes_[0].law.mean(); }
  double variance() const { return variance_; }
  ShareLaw::Cumulants At(double t) const {
    ShareLaw::Cumulants sum = {0, 0, 0};
    for (const ClassShares& shares : classes_) {
      // A mean over `size` independent shares has the cumulants of one share at t / size, times size.
      const double size = scale_ * static_cast<double>(shares.count);
      const ShareLaw::Cumulants one = shares.law.At(t / size);
      sum.value += size * one.value;
      sum.slope += one.slope;
      sum.curvature += one.curvature / size;
    }
    return sum;
  }

 private:
  const std::array<ClassShares, 2> classes_;
  double variance_ = 0, scale_ = 1;
};

// Where the slope of the cumulants is `above`, in (0, 1 - mean]: they are convex, so Newton's steps are kept between
// the points known to lie on either side.
// Pure Newton steps leave the interval where the slope is flat, near an AUC of 1, and may then not come back.
double SaddlePoint(const AucLaw& law, double above) {
  constexpr int kMostSteps = 100;
  double low = 0, high = 1 / std::sqrt(law.variance());
  // Ends: the slope tends to 1 - mean, and `above` lies below that by half a pair.
  while (law.At(high).slope < above) {
    low = high;
    high *= 2;
  }
  double t = (low + high) / 2;
  for (int step = 0; step < kMostSteps && high - low > 1e-9 * high; ++step) {
    const ShareLaw::Cumulants at = law.At(t);
    (at.slope < above ? low : high) = t;
    const double newton = t + (above - at.slope) / at.curvature;
    t = newton > low && newton < high ? newton : (low + high) / 2;
    if (std::abs(at.slope - above) < 1e-12) {
      break;
    }
  }
  return t;
}

double Tail(const AucLaw& law, double auc) {
  const double above = auc - law.mean();
  // Within one standard deviation nothing is certain, and the formula below divides by nearly 0 close to the mean.
  if (!(above > std::sqrt(law.variance()))) {
    return 1;
  }
  const double t = SaddlePoint(law, above);
  const ShareLaw::Cumulants at = law.At(t);
  // By convexity the difference is not negative; rounding may make it so.
  const double root = std::sqrt(2 * std::max(0.0, t * above - at.value));
  const double scaled = t * std::sqrt(at.curvature);
  constexpr double kSqrtTwoPi = 2.5066282746310002;
  // Lugannani and Rice: P(X >= x) = Phi(-w) + phi(w) (1/u - 1/w), w the signed root of the likelihood ratio, u = t
  // sqrt(K''(t)).
  return UpperTail(root) + std::exp(-root * root / 2) / kSqrtTwoPi * (1 / scaled - 1 / root);
}

// Whether the test would call an AUC of a score that may be inverted too large for `bound`.
// Half of the risk for each direction, because the adversary may invert the score after seeing its AUC.
bool IsTooLarge(const MeasuredAuc& measured, double bound) {
  const double inverted = InvertedAuc(measured.auc);
  return inverted > bound && AucTail(inverted, bound, measured.positives, measured.examples - measured.positives) <
                                 ShareOfRisk(measured.attack, measured.epoch) / 2;
}

}  // namespace

double ShareOfRisk(absl::string_view attack, int64_t epoch) {
  const std::optional<AttackVariant> variant = AttackOfName(attack);
  const bool worst_case = variant.has_value() && TraitsOf(variant->attack).needs == SideInformation::kReleasingHead;
  // The table of attacks is constant, so the number of shares is counted once in a process.
  static const double other_share = (1 - 2 * kWorstCaseShare) / OtherAttacks();
  // 1 / (n (n + 1)) adds up to 1 over all n: no number of epochs has to be known beforehand.
  const auto nth = static_cast<double>(epoch + 1);
  // The shares of all attacks in all epochs add up to kAttacksRisk (union bound), so the tests need not be independent.
  return kAttacksRisk * (worst_case ? kWorstCaseShare : other_share) / (nth * (nth + 1));
}

double AucTail(double auc, double bound, int64_t positives, int64_t negatives) {
  if (positives < 1 || negatives < 1) {
    return 1;
  }
  const double mu = 2 * boost::math::erf_inv(2 * bound - 1);  // Phi(mu / sqrt(2)) = (1 + erf(mu / 2)) / 2.
  // The mu-GDP pair: the share of negatives that a positive of N(mu, 1) does not beat, and by symmetry the reverse.
  const ShareLaw shifted([&](double z) { return UpperTail(mu + z); });
  // Of variances whose ratio r has (r - 1)^2 / (2 r) = mu^2, scored by length.
  const double wider = std::sqrt(1 + mu * mu + mu * std::sqrt(mu * mu + 2));
  const ShareLaw of_wide([&](double z) { return 2 * UpperTail(wider * std::abs(z)); });
  const ShareLaw of_narrow([&](double z) { return std::erf(std::abs(z) / (wider * std::sqrt(2.0))); });
  // An AUC is a multiple of half a pair: what lies halfway to the next smaller one counts with it.
  const double reached = auc - 0.5 / (static_cast<double>(positives) * static_cast<double>(negatives));
  // A claim is called broken only if even the most favourable of the three laws would hardly have given this AUC.
  return std::max({Tail(AucLaw({shifted, positives}, {shifted, negatives}), reached),
                   Tail(AucLaw({of_wide, positives}, {of_narrow, negatives}), reached),
                   Tail(AucLaw({of_wide, negatives}, {of_narrow, positives}), reached)});
}

bool ExceedsGaussianAucBound(const MeasuredAuc& measured, double gaussian_auc_bound) {
  const double bound = gaussian_auc_bound + kBoundTolerance;
  // At a bound of 1 nothing exceeds it, and its mu would be infinite. NaN compares false: nothing is bounded.
  return bound < 1 && IsTooLarge(measured, bound);
}

double CertainAuc(const MeasuredAuc& measured) {
  if (std::isnan(measured.auc)) {
    return measured.auc;
  }
  double low = 0.5, high = InvertedAuc(measured.auc);
  // Not even guessing is refuted: the sample is too small to be certain of anything.
  if (!IsTooLarge(measured, low)) {
    return low;
  }
  // The excess grows as the bound falls, so halving finds where the test turns.
  while (high - low > 1e-5) {
    const double middle = (low + high) / 2;
    (IsTooLarge(measured, middle) ? low : high) = middle;
  }
  return low;
}

}  // namespace splitveil
