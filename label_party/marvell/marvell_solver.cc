#include "label_party/marvell/marvell_solver.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "common/leakage/bounds.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

// The problem with its classes ranked by variance instead of named by label.
struct RankedProblem {
  double d;
  double low, high;                // Variances, low <= high.
  double low_weight, high_weight;  // Shares of the two classes; sum 1.
  double g;
  double power;
  double least_noise;  // Least positive variance that is one both here and in the caller's units.
};

// Noise with `across` on every component of the low class and besides it, along dg, an excess for both classes.
struct Candidate {
  double across;       // lambda2 of the low class, x.
  double low_excess;   // lambda1 - lambda2 of the low class.
  double high_excess;  // lambda1 of the high class.
  bool descending;     // Whether sum_kl still falls as x grows.
};

// The variances a and a' = r a along dg of the low and the high class share w a + w' a' = total. Their divergence,
//   r + 1/r - 2 + (g / total) (w + w' r) (1 + 1/r),
// is convex in r and least at sqrt((total + g w) / (total + g w')).
// The classes' shares of the noise along dg: the rarer class gets more, since it costs less of the expected power.
double RatioAlong(const RankedProblem& q, double total) {
  // Two roots, since the quotient under one may overflow or underflow.
  return std::sqrt(total + q.g * q.low_weight) / std::sqrt(total + q.g * q.high_weight);
}

// d sum_kl / d log b at fixed power, b = low + x, as the gain across dg against the cost along it (of which the factor
// 2 is left out). `spread` is a' - a, passed in because it cancels.
bool StillDescending(const RankedProblem& q, const Candidate& at, double gap, double total, double ratio) {
  const double base = q.low + at.across;
  const double a = base + at.low_excess;
  const double b = q.high + at.high_excess;
  const double spread = gap - at.low_excess + at.high_excess;
  const double gain = (q.d - 1) * (gap / base) * ((q.high + base) / q.high);
  // Three cases, by which of the constraints lambda1 >= lambda2 >= 0 hold with equality.
  const bool low_is_free = at.low_excess > 0 || q.high_weight == 0;
  if (at.high_excess > 0 && low_is_free) {
    const double price = q.low_weight * (base / total) * (q.g / total);
    return gain > (q.d - 1) * price * (1 + q.high_weight * ratio + q.low_weight / ratio);
  }
  const double slope_low = spread / a * ((a + b) / b) + q.g / a;  // -d sum_kl / d log a
  if (low_is_free || (at.high_excess == 0 && ratio * a <= b)) {
    return gain > (q.d - 1) * (base / a) * slope_low;
  }
  // lambda1 = lambda2 in the low class: more noise across dg is more along it, too, paid for by the high class.
  const double slope_high = q.g / b - spread / b * ((a + b) / a);  // -d sum_kl / d log a'
  return gain > q.d * (q.low_weight / q.high_weight) * (base / b) * slope_high - slope_low;
}

// The best candidate with noise `across` dg; `gap` is high - low - across, passed in because it cancels.
Candidate BestWith(const RankedProblem& q, double across, double gap) {
  Candidate best{across, 0, 0, false};
  // For a given noise across dg the rest of the power goes along it, and that split has a closed form.
  const double base = q.low + across;
  const double left = std::max(0.0, q.power - q.low_weight * q.d * across);
  const double total = left + q.low_weight * base + q.high_weight * q.high;
  if (total == 0) {
    return best;  // Neither variance nor power: no noise can be had.
  }
  const double ratio = RatioAlong(q, total);
  const double a = total / (q.low_weight + q.high_weight * ratio);
  // The rarer class takes what the closed form gives it, the other what is left: the reverse would divide the rounding
  // by a small share. If the closed form asks for negative noise, or more than is left, convexity puts it on the
  // bound.
  const double high_limit = left / q.high_weight;
  const double low_limit = left / q.low_weight;
  if (q.high_weight <= q.low_weight) {
    best.high_excess = std::clamp(ratio * a - q.high, 0.0, high_limit);
    best.low_excess = best.high_excess < high_limit ? (left - q.high_weight * best.high_excess) / q.low_weight : 0;
  } else {
    best.low_excess = std::clamp(a - base, 0.0, low_limit);
    best.high_excess = best.low_excess < low_limit ? (left - q.low_weight * best.low_excess) / q.high_weight : 0;
  }
  best.descending = StillDescending(q, best, gap, total, ratio);
  return best;
}

uint64_t BitsOf(double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

double FromBits(uint64_t bits) {
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// Where in [left, right], 0 <= left, the predicate turns from true to false, to 2^-41 of the value. Halves the ordered
// bit patterns of the doubles, so that some fifty steps are enough for any exponents.
template <typename Predicate>
double LastWhere(double left, double right, Predicate predicate) {
  uint64_t low = BitsOf(left);
  uint64_t high = BitsOf(right);
  while (high - low > (uint64_t{1} << 11)) {
    const uint64_t middle = low + (high - low) / 2;
    (predicate(FromBits(middle)) ? low : high) = middle;
  }
  return FromBits(low);
}

// The one-dimensional search over x in [0, high - low], by the smaller of x and its gap to the end, so
// that both ends are resolved to relative precision.
Candidate Optimum(const RankedProblem& q) {
  const double range = q.high - q.low;
  if (q.d == 1 || range == 0) {
    return BestWith(q, 0, range);
  }
  // Noise across costs power in all d directions of the low class; beyond `range` it would overtake the high class.
  const double price = q.low_weight * q.d;
  const double most = q.power >= price * range ? range : std::min(range, q.power / price);
  // sum_kl is convex in x, so a slope that is still negative at the end makes the end the optimum.
  const Candidate end = BestWith(q, most, range - most);
  if (end.descending) {
    return end;
  }
  if (most > range / 2 && BestWith(q, range / 2, range / 2).descending) {
    const auto descends_no_more = [&](double gap) { return !BestWith(q, range - gap, gap).descending; };
    const double gap = LastWhere(range - most, range / 2, descends_no_more);
    return BestWith(q, range - gap, gap);
  }
  const auto descends = [&](double across) { return BestWith(q, across, range - across).descending; };
  double across = LastWhere(0, std::min(most, range / 2), descends);
  if (q.low == 0) {
    // Without any variance of its own the low class must get some, be the best too small for a double.
    across = std::max(across, std::min(most, q.least_noise));
  }
  return BestWith(q, across, range - across);
}

// value * 2^exponent, rounded towards zero if it is subnormal.
double ScaledTowardsZero(double value, int exponent) {
  const double scaled = std::ldexp(value, exponent);
  return std::ldexp(scaled, -exponent) > value ? std::nextafter(scaled, 0.0) : scaled;
}

// Towards zero if a subnormal result is rounded by more than a little: rounding must not spend power there is none
// of.
double RoundedTowardsZero(double value) {
  return value > 0 && value < std::numeric_limits<double>::min() ? std::nextafter(value, 0.0) : value;
}

// share * lambda / power, for a share that may be zero and a quotient that may overflow or underflow.
double SpentShare(double share, double lambda, double power) {
  if (share == 0) {
    return 0;
  }
  const double quotient = lambda / power;
  return std::isinf(quotient) ? share * lambda / power : share * quotient;
}

// If quantities beyond the range of the scaled problem were rounded, the noise may cost a little more than there is.
void KeepToPower(const MarvellProblem& problem, MarvellSolution& s) {
  if (problem.power == 0) {
    return;
  }
  const double others = static_cast<double>(problem.d - 1);
  const double spent = SpentShare(problem.p, s.lambda1_pos, problem.power) +
                       SpentShare(problem.p, s.lambda2_pos, problem.power) * others +
                       SpentShare(1 - problem.p, s.lambda1_neg, problem.power) +
                       SpentShare(1 - problem.p, s.lambda2_neg, problem.power) * others;
  constexpr double kRounding = 1e-14;
  if (spent > 1 + kRounding) {
    for (double* lambda : {&s.lambda1_neg, &s.lambda2_neg, &s.lambda1_pos, &s.lambda2_pos}) {
      *lambda = RoundedTowardsZero(*lambda * ((1 - kRounding) / spent));
    }
  }
}

// u, v and g come from a batch, p from the model: none of them may turn the search into one without an end.
absl::Status CheckQuantity(const char* name, double value, double max) {
  // Written so that NaN fails.
  if (value >= 0 && value <= max) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("marvell: ", name, ": expected a finite number >= 0",
                                                 max == 1 ? " and <= 1" : "", ", found ", value));
}

absl::Status CheckProblem(const MarvellProblem& problem) {
  if (problem.d < 1) {
    return absl::InvalidArgumentError(absl::StrCat("marvell: d: expected at least 1, found ", problem.d));
  }
  absl::Status status = CheckQuantity("u", problem.u, std::numeric_limits<double>::max());
  status.Update(CheckQuantity("v", problem.v, std::numeric_limits<double>::max()));
  status.Update(CheckQuantity("g", problem.g, std::numeric_limits<double>::max()));
  status.Update(CheckQuantity("p", problem.p, 1));
  status.Update(CheckQuantity("P", problem.power, std::numeric_limits<double>::max()));
  return status;
}

// The power of two that puts `largest` near 2^950. The optimum scales with the problem; there no sum or product of the
// search overflows, and what underflows is too small beside it to show in any double.
int ScaleOf(double largest) {
  int exponent;
  std::frexp(largest, &exponent);
  return 950 - exponent;
}

// The optimum puts noise across dg on the class of smaller variance only (appendix A.4), so classes are named by
// variance.
RankedProblem Rank(const MarvellProblem& problem, int scale) {
  const bool low_is_positive = problem.v < problem.u;
  RankedProblem ranked;
  ranked.d = static_cast<double>(problem.d);
  ranked.low = std::ldexp(std::min(problem.u, problem.v), scale);
  ranked.high = std::ldexp(std::max(problem.u, problem.v), scale);
  ranked.low_weight = low_is_positive ? problem.p : 1 - problem.p;
  ranked.high_weight = low_is_positive ? 1 - problem.p : problem.p;
  ranked.g = std::ldexp(problem.g, scale);
  ranked.power = std::ldexp(problem.power, scale);
  ranked.least_noise =
      std::max(std::numeric_limits<double>::min(), std::ldexp(std::numeric_limits<double>::denorm_min(), scale));
  return ranked;
}

// The divergence of the solution that the caller gets, scaled so that no sum of a variance and its noise overflows.
double ScaledSumKl(const MarvellProblem& problem, const MarvellSolution& s, int scale) {
  const double u = std::ldexp(problem.u, scale);
  const double v = std::ldexp(problem.v, scale);
  GaussianClasses classes;
  classes.d = problem.d;
  classes.dg_squared = std::ldexp(problem.g, scale);
  classes.along_neg = std::ldexp(s.lambda1_neg, scale) + u;
  classes.across_neg = std::ldexp(s.lambda2_neg, scale) + u;
  classes.along_pos = std::ldexp(s.lambda1_pos, scale) + v;
  classes.across_pos = std::ldexp(s.lambda2_pos, scale) + v;
  return SumKl(classes);
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kSlack = 1e-9;

// Enough power for any optimum: noise that makes both classes equal, N(., a) with ||dg||^2 / a = target.
double SufficientPower(const MarvellProblem& q, double target_sum_kl) {
  const double low = std::min(q.u, q.v);
  const double high = std::max(q.u, q.v);
  const double low_weight = q.v < q.u ? q.p : 1 - q.p;
  // Only the sufficient power is needed here: the search below then lowers it.
  const double along = std::max(high, q.g / target_sum_kl);
  const double power =
      low_weight * ((along - low) + static_cast<double>(q.d - 1) * (high - low)) + (1 - low_weight) * (along - high);
  return power > 0 ? power : std::numeric_limits<double>::min();
}

// A power on both sides of the target: sum_kl(low) > target >= sum_kl(high).
struct Bracket {
  double low = 0, high = 0;
  double low_excess = 0, high_excess = 0;  // log(sum_kl / target) at each end, as the false position weighs it.
};

// A point inside: false position in (log power, log sum_kl), where sum_kl ~ 1/power is a straight line; geometric
// halving if that cannot be, or every eighth step so that no shape of the curve can stall the search.
double Inside(const Bracket& bracket, int step) {
  const double log_low = std::log(bracket.low);
  const double span = std::log(bracket.high) - log_low;
  // Each trial solves a whole problem, so a search that needs few of them matters: this runs for every batch.
  double share = bracket.low_excess / (bracket.low_excess - bracket.high_excess);
  if (step % 8 == 7 || !(share > 0 && share < 1)) {
    share = 0.5;
  }
  return std::clamp(std::exp(log_low + share * span), bracket.low, bracket.high);
}

// The search between a power that is too little and one that is enough.
class LeastPowerSearch {
 public:
  LeastPowerSearch(const MarvellProblem& problem, double target_sum_kl)
      : problem_(problem), target_sum_kl_(target_sum_kl) {}

  // `enough` reaches the target, zero does not. Errors: see SolveMarvell.
  absl::StatusOr<MarvellPower> Run(const MarvellPower& enough) {
    best_ = enough;
    bracket_ = {0, enough.power, kInfinity, ExcessOf(enough.solution)};
    // By factors that square: the least power may lie hundreds of orders of magnitude below the sufficient one.
    for (double factor = 2; bracket_.low == 0; factor *= factor) {
      const double power = std::max(bracket_.high / factor, std::numeric_limits<double>::denorm_min());
      if (power == bracket_.high) {
        return best_;
      }
      SPLITVEIL_RETURN_IF_ERROR(Try(power));
    }
    constexpr int kMaxSteps = 400;
    for (int step = 0; step < kMaxSteps && best_.solution.sum_kl < (1 - kSlack) * target_sum_kl_; ++step) {
      const double power = Inside(bracket_, step);
      if (power == bracket_.low || power == bracket_.high) {
        break;
      }
      SPLITVEIL_RETURN_IF_ERROR(Try(power));
    }
    return best_;
  }

 private:
  // Aims half the slack below the target, so that the search ends on the side where the target is met.
  double ExcessOf(const MarvellSolution& solution) const {
    return std::log(solution.sum_kl / (target_sum_kl_ * (1 - kSlack / 2)));
  }

  // Makes `power` an end of the bracket. An end that stays twice running loses half its weight, else it would stay for
  // ever (the Illinois rule).
  absl::Status Try(double power) {
    problem_.power = power;
    SPLITVEIL_ASSIGN_OR_RETURN(MarvellSolution solved, SolveMarvell(problem_));
    const bool enough = solved.sum_kl <= target_sum_kl_;
    const double weight = enough == last_was_enough_ ? 0.5 : 1;
    last_was_enough_ = enough;
    if (enough) {
      best_ = {power, solved};
      bracket_ = {bracket_.low, power, bracket_.low_excess * weight, ExcessOf(solved)};
    } else {
      bracket_ = {power, bracket_.high, ExcessOf(solved), bracket_.high_excess * weight};
    }
    return absl::OkStatus();
  }

  MarvellProblem problem_;
  const double target_sum_kl_;
  MarvellPower best_;
  Bracket bracket_;
  bool last_was_enough_ = true;
};

}  // namespace

absl::StatusOr<MarvellSolution> SolveMarvell(const MarvellProblem& problem) {
  SPLITVEIL_RETURN_IF_ERROR(CheckProblem(problem));
  const double largest = std::max({problem.u, problem.v, problem.g, problem.power});
  MarvellSolution solution;
  if (largest == 0) {
    return solution;
  }
  // Gradients late in training are tiny: unscaled, their products would underflow to zero divergence, which is no leak.
  const int scale = ScaleOf(largest);
  const RankedProblem ranked = Rank(problem, scale);
  const bool low_is_positive = problem.v < problem.u;
  // A class that never occurs costs no power, so even without any its noise may be chosen.
  if (ranked.power > 0 || problem.p == 0 || problem.p == 1) {
    const Candidate optimum = Optimum(ranked);
    const double along_low = ScaledTowardsZero(optimum.across + optimum.low_excess, -scale);
    const double across_low = ScaledTowardsZero(optimum.across, -scale);
    const double along_high = ScaledTowardsZero(optimum.high_excess, -scale);
    (low_is_positive ? solution.lambda1_pos : solution.lambda1_neg) = along_low;
    (low_is_positive ? solution.lambda2_pos : solution.lambda2_neg) = across_low;
    (low_is_positive ? solution.lambda1_neg : solution.lambda1_pos) = along_high;
    KeepToPower(problem, solution);
  }
  // Computed from the rounded noise, so that what is reported is what will be drawn.
  solution.sum_kl = ScaledSumKl(problem, solution, scale);
  return solution;
}

absl::StatusOr<MarvellPower> LeastMarvellPower(const MarvellProblem& problem, double target_sum_kl) {
  if (!(target_sum_kl > 0 && target_sum_kl < kInfinity)) {
    return absl::InvalidArgumentError(
        absl::StrCat("marvell: sum_kl: expected a positive finite target, found ", target_sum_kl));
  }
  MarvellProblem trial = problem;
  // First without noise: a batch whose classes are already alike needs none.
  trial.power = 0;
  SPLITVEIL_ASSIGN_OR_RETURN(const MarvellSolution bare, SolveMarvell(trial));
  if (bare.sum_kl <= target_sum_kl) {
    return MarvellPower{0, bare};
  }
  trial.power = SufficientPower(problem, target_sum_kl);
  absl::StatusOr<MarvellSolution> solved = SolveMarvell(trial);
  // Rounding may make the closed form a hair too small, but only noise below a double's resolution needs more than
  // that.
  if (solved.ok() && solved->sum_kl > target_sum_kl) {
    trial.power *= 1 + kSlack / 2;
    solved = SolveMarvell(trial);
  }
  if (!solved.ok() || solved->sum_kl > target_sum_kl) {
    return absl::FailedPreconditionError(
        absl::StrCat("marvell: no power that a double can hold reaches sum_kl ", target_sum_kl));
  }
  return LeastPowerSearch(problem, target_sum_kl).Run({trial.power, *solved});
}

absl::StatusOr<double> SumKlForDetectionError(double detection_error) {
  if (!(detection_error >= 0 && detection_error < 0.5)) {
    return absl::InvalidArgumentError(
        absl::StrCat("marvell: detection_error: expected 0 <= L < 0.5, found ", detection_error));
  }
  const double root = 2 - 4 * detection_error;
  return root * root;
}

}  // namespace splitveil
