#include "label_party/marvell/run_budget.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "common/leakage/bounds.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

constexpr double kLeastShare = 1e-9;          // Nats. Noise below this would drown every gradient in rounding.
constexpr double kPlannedShare = 7.0 / 8;     // Where the plan must leave something for what comes after it.
constexpr double kLargestFiniteSumKl = 2048;  // GaussianAucBound is 1 there, to the last bit.

template <typename Found>
absl::Status Unfit(const char* field, const std::string& expected, const Found& found) {
  return absl::InvalidArgumentError(
      absl::StrCat("protection.marvell.run_budget.", field, ": expected ", expected, ", found ", found));
}

absl::Status CheckBudget(const v1::GradientProtection::RunBudget& budget) {
  // Written so that NaN fails.
  if (!(budget.max_run_auc_bound() > 0.5 && budget.max_run_auc_bound() < 1)) {
    return Unfit("max_run_auc_bound", "a number above 0.5 and below 1", budget.max_run_auc_bound());
  }
  if (budget.planned_epochs() < 1) {
    return Unfit("planned_epochs", "at least 1", budget.planned_epochs());
  }
  if (!(budget.noise_growth_per_epoch() > 0 && std::isfinite(budget.noise_growth_per_epoch()))) {
    return Unfit("noise_growth_per_epoch", "a positive finite number", budget.noise_growth_per_epoch());
  }
  if (budget.when_spent() < v1::RAISE_NOISE) {  // A budget that RELEASE or WARN would let pass is none.
    return Unfit("when_spent", "RAISE_NOISE, FREEZE_BOTTOM or HALT", v1::GateAction_Name(budget.when_spent()));
  }
  return absl::OkStatus();
}

}  // namespace

double SumKlForRunAuc(double max_run_auc_bound) {
  if (!(max_run_auc_bound > 0.5)) {
    return 0;
  }
  if (max_run_auc_bound >= 1) {
    return std::numeric_limits<double>::infinity();
  }
  // Halving in the detectability d' = sqrt(sum_kl), in which the AUC is nearly straight, until doubles run out.
  double enough = 0;
  double too_much = std::sqrt(kLargestFiniteSumKl);
  for (double middle = too_much / 2; middle > enough && middle < too_much; middle = (enough + too_much) / 2) {
    (GaussianAucBound(middle * middle) <= max_run_auc_bound ? enough : too_much) = middle;
  }
  return enough * enough;
}

double SpendableSumKl(const v1::GradientProtection::RunBudget& budget) {
  return (1 - kSafetyShare) * SumKlForRunAuc(budget.max_run_auc_bound());
}

absl::StatusOr<std::vector<double>> PlanRunBudget(const v1::GradientProtection::RunBudget& budget) {
  SPLITVEIL_RETURN_IF_ERROR(CheckBudget(budget));
  const double growth = budget.noise_growth_per_epoch();
  const int last = budget.planned_epochs() - 1;
  std::vector<double> shares(static_cast<size_t>(budget.planned_epochs()));
  for (int e = 0; e <= last; ++e) {
    // Relative to the largest, so that none overflows.
    shares[e] = growth >= 1 ? std::pow(growth, -e) : std::pow(growth, last - e);
  }
  // If noise may be raised at the end, a share is kept back: half of what is left must remain usable.
  const bool more_to_come = budget.when_spent() == v1::RAISE_NOISE;
  const double spendable = SpendableSumKl(budget) * (1 - kSolverShare) * (more_to_come ? kPlannedShare : 1.0);
  const double unit = spendable / std::accumulate(shares.begin(), shares.end(), 0.0);
  for (double& share : shares) {
    share *= unit;
  }
  // A share of almost nothing would take noise beyond what a float holds.
  if (!(*std::min_element(shares.begin(), shares.end()) >= kLeastShare)) {
    return Unfit("noise_growth_per_epoch",
                 absl::StrCat("a growth that leaves each of ", last + 1, " epochs ", kLeastShare, " nats"), growth);
  }
  return shares;
}

}  // namespace splitveil
