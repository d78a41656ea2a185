#include "common/leakage/certain_auc.h"

#include <algorithm>
#include <array>
#include <boost/math/special_functions/erf.hpp>
#include <cmath>
#include <cstddef>
#include <optional>

#include "common/leakage/attack_traits.h"
#include "common/leakage/summary.h"

namespace splitveil {
namespace {

constexpr double kWorstCaseShare = 3.0 / 8;  // Of each of the two.

double UpperTail(double x) { return std::erfc(x / std::sqrt(2.0)) / 2; }

// Attacks that share what the worst cases leave: each that noise on gradients answers for, as often as it may run.
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
      lost_[i] = lost(z);
      weights_[i] = std::exp(-z * z / 2);
      total += weights_[i];
    }
    double squares = 0;
    for (size_t i = 0; i < kPoints; ++i) {
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

// The cumulants of the mean share of one class plus that of the other, of effective numbers of examples.
class AucLaw {
 public:
  AucLaw(const ClassShares& a, const ClassShares& b) : classes_{a, b} {
    const auto of_a = static_cast<double>(a.count), of_b = static_cast<double>(b.count);
    const double by_one = a.law.variance() / of_a + b.law.variance() / of_b;
    variance_ = (mean() * (1 - mean()) + (of_b - 1) * a.law.variance() + (of_a - 1) * b.law.variance()) / (of_a * of_b);
    scale_ = by_one / variance_;
  }

  double mean() const { return classes_[0].law.mean(); }
  double variance() const { return variance_; }
  ShareLaw::Cumulants At(double t) const {
    ShareLaw::Cumulants sum = {0, 0, 0};
    for (const ClassShares& shares : classes_) {
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
double SaddlePoint(const AucLaw& law, double above) {
  constexpr int kMostSteps = 100;
  double low = 0, high = 1 / std::sqrt(law.variance());
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
  if (!(above > std::sqrt(law.variance()))) {
    return 1;
  }
  const double t = SaddlePoint(law, above);
  const ShareLaw::Cumulants at = law.At(t);
  const double root = std::sqrt(2 * std::max(0.0, t * above - at.value));
  const double scaled = t * std::sqrt(at.curvature);
  constexpr double kSqrtTwoPi = 2.5066282746310002;
  return UpperTail(root) + std::exp(-root * root / 2) / kSqrtTwoPi * (1 / scaled - 1 / root);
}

// Whether the test would call an AUC of a score that may be inverted too large for `bound`.
bool IsTooLarge(const MeasuredAuc& measured, double bound) {
  const double inverted = InvertedAuc(measured.auc);
  return inverted > bound && AucTail(inverted, bound, measured.positives, measured.examples - measured.positives) <
                                 ShareOfRisk(measured.attack, measured.epoch) / 2;
}

}  // namespace

double ShareOfRisk(absl::string_view attack, int64_t epoch) {
  const std::optional<AttackVariant> variant = AttackOfName(attack);
  const bool worst_case = variant.has_value() && TraitsOf(variant->attack).needs == SideInformation::kReleasingHead;
  static const double other_share = (1 - 2 * kWorstCaseShare) / OtherAttacks();
  const auto nth = static_cast<double>(epoch + 1);
  return kAttacksRisk * (worst_case ? kWorstCaseShare : other_share) / (nth * (nth + 1));
}

double AucTail(double auc, double bound, int64_t positives, int64_t negatives) {
  if (positives < 1 || negatives < 1) {
    return 1;
  }
  const double mu = 2 * boost::math::erf_inv(2 * bound - 1);  // Phi(mu / sqrt(2)) = (1 + erf(mu / 2)) / 2.
  const ShareLaw shifted([&](double z) { return UpperTail(mu + z); });
  // Of variances whose ratio r has (r - 1)^2 / (2 r) = mu^2, scored by length.
  const double wider = std::sqrt(1 + mu * mu + mu * std::sqrt(mu * mu + 2));
  const ShareLaw of_wide([&](double z) { return 2 * UpperTail(wider * std::abs(z)); });
  const ShareLaw of_narrow([&](double z) { return std::erf(std::abs(z) / (wider * std::sqrt(2.0))); });
  // An AUC is a multiple of half a pair: what lies halfway to the next smaller one counts with it.
  const double reached = auc - 0.5 / (static_cast<double>(positives) * static_cast<double>(negatives));
  return std::max({Tail(AucLaw({shifted, positives}, {shifted, negatives}), reached),
                   Tail(AucLaw({of_wide, positives}, {of_narrow, negatives}), reached),
                   Tail(AucLaw({of_wide, negatives}, {of_narrow, positives}), reached)});
}

bool ExceedsGaussianAucBound(const MeasuredAuc& measured, double gaussian_auc_bound) {
  const double bound = gaussian_auc_bound + kBoundTolerance;
  return bound < 1 && IsTooLarge(measured, bound);
}

double CertainAuc(const MeasuredAuc& measured) {
  if (std::isnan(measured.auc)) {
    return measured.auc;
  }
  double low = 0.5, high = InvertedAuc(measured.auc);
  if (!IsTooLarge(measured, low)) {
    return low;
  }
  while (high - low > 1e-5) {
    const double middle = (low + high) / 2;
    (IsTooLarge(measured, middle) ? low : high) = middle;
  }
  return low;
}

}  // namespace splitveil
