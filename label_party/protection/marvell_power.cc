#include "label_party/protection/marvell_power.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace splitveil {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kSlack = 1e-9;

// Enough power whatever the optimum: noise that makes both classes equal, N(., a) with ||dg||^2 / a = target.
double SufficientPower(const MarvellProblem& q, double target_sum_kl) {
  const double low = std::min(q.u, q.v);
  const double high = std::max(q.u, q.v);
  const double low_weight = q.v < q.u ? q.p : 1 - q.p;
  const double along = std::max(high, q.g / target_sum_kl);
  const double power =
      low_weight * ((along - low) + static_cast<double>(q.d - 1) * (high - low)) + (1 - low_weight) * (along - high);
  return power > 0 ? power : std::numeric_limits<double>::min();
}

// A power on both sides of the target: sum_kl(low) > target >= sum_kl(high).
struct Bracket {
  double low, high;
  double low_excess, high_excess;  // log(sum_kl / target) at each end, as the false position weighs it.
};

// A point inside: false position in (log power, log sum_kl), where sum_kl ~ 1/power is a straight line; geometric
// halving where that cannot be, or every eighth step so that no shape of the curve can stall the search.
double Inside(const Bracket& bracket, int step) {
  const double log_low = std::log(bracket.low);
  const double span = std::log(bracket.high) - log_low;
  double share = bracket.low_excess / (bracket.low_excess - bracket.high_excess);
  if (step % 8 == 7 || !(share > 0 && share < 1)) {
    share = 0.5;
  }
  return std::clamp(std::exp(log_low + share * span), bracket.low, bracket.high);
}

}  // namespace

absl::StatusOr<MarvellPower> LeastMarvellPower(const MarvellProblem& problem, double target_sum_kl) {
  if (!(target_sum_kl > 0 && target_sum_kl < kInfinity)) {
    return absl::InvalidArgumentError(
        absl::StrCat("marvell: sum_kl: expected a positive finite target, found ", target_sum_kl));
  }
  MarvellPower best;
  MarvellProblem trial = problem;
  const auto solve = [&trial](double power) {
    trial.power = power;
    return SolveMarvell(trial);
  };
  absl::StatusOr<MarvellSolution> clear = solve(0);
  if (!clear.ok()) {
    return clear.status();
  }
  if (clear->sum_kl <= target_sum_kl) {
    best.solution = *clear;
    return best;
  }
  const auto excess_of = [target_sum_kl](const MarvellSolution& s) { return std::log(s.sum_kl / target_sum_kl); };

  best.power = SufficientPower(problem, target_sum_kl);
  absl::StatusOr<MarvellSolution> solved = solve(best.power);
  // Rounding may leave the closed form a hair short, but only noise below a double's resolution needs more than that.
  if (solved.ok() && solved->sum_kl > target_sum_kl) {
    best.power *= 1 + kSlack / 2;
    solved = solve(best.power);
  }
  if (!solved.ok() || solved->sum_kl > target_sum_kl) {
    return absl::FailedPreconditionError(
        absl::StrCat("marvell: no power that a double can hold reaches sum_kl ", target_sum_kl));
  }
  best.solution = *solved;

  Bracket bracket{0, best.power, kInfinity, excess_of(*solved)};
  for (double factor = 2; bracket.low == 0; factor *= factor) {
    const double lower = std::max(bracket.high / factor, std::numeric_limits<double>::denorm_min());
    if (lower == bracket.high) {
      return best;
    }
    solved = solve(lower);
    if (solved->sum_kl > target_sum_kl) {
      bracket.low = lower;
      bracket.low_excess = excess_of(*solved);
    } else {
      best = {lower, *solved};
      bracket.high = lower;
      bracket.high_excess = excess_of(*solved);
    }
  }
  constexpr int kMaxSteps = 400;
  for (int step = 0; step < kMaxSteps && best.solution.sum_kl < (1 - kSlack) * target_sum_kl; ++step) {
    const double power = Inside(bracket, step);
    if (power == bracket.low || power == bracket.high) {
      break;
    }
    solved = solve(power);
    // Illinois: the end that stays loses half its weight, else it would stay for ever.
    if (solved->sum_kl > target_sum_kl) {
      bracket = {power, bracket.high, excess_of(*solved), bracket.high_excess / 2};
    } else {
      best = {power, *solved};
      bracket = {bracket.low, power, bracket.low_excess / 2, excess_of(*solved)};
    }
  }
  return best;
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
