#include "label_party/marvell/marvell_power.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "common/status/status_macros.h"

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
  double low = 0, high = 0;
  double low_excess = 0, high_excess = 0;  // log(sum_kl / target) at each end, as the false position weighs it.
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

// The search between a power that is too little and one that is enough.
class LeastPowerSearch {
 public:
  LeastPowerSearch(const MarvellProblem& problem, double target_sum_kl)
      : problem_(problem), target_sum_kl_(target_sum_kl) {}

  // `enough` reaches the target, zero does not. Errors: as SolveMarvell.
  absl::StatusOr<MarvellPower> Run(const MarvellPower& enough) {
    best_ = enough;
    bracket_ = {0, enough.power, kInfinity, ExcessOf(enough.solution)};
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

absl::StatusOr<MarvellPower> LeastMarvellPower(const MarvellProblem& problem, double target_sum_kl) {
  if (!(target_sum_kl > 0 && target_sum_kl < kInfinity)) {
    return absl::InvalidArgumentError(
        absl::StrCat("marvell: sum_kl: expected a positive finite target, found ", target_sum_kl));
  }
  MarvellProblem trial = problem;
  trial.power = 0;
  SPLITVEIL_ASSIGN_OR_RETURN(const MarvellSolution bare, SolveMarvell(trial));
  if (bare.sum_kl <= target_sum_kl) {
    return MarvellPower{0, bare};
  }
  trial.power = SufficientPower(problem, target_sum_kl);
  absl::StatusOr<MarvellSolution> solved = SolveMarvell(trial);
  // Rounding may leave the closed form a hair short, but only noise below a double's resolution needs more than that.
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
