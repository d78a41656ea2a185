#include "label_party/marvell/marvell_planner.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "common/leakage/bounds.h"
#include "common/status/status_macros.h"
#include "label_party/marvell/marvell_solver.h"
#include "label_party/noise/noise_planner.h"

namespace splitveil {
namespace {

absl::Status CheckPositive(const char* field, double value) {
  // Written so that NaN fails.
  if (value > 0 && std::isfinite(value)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("protection.marvell.", field, ": expected a positive finite number, found ", value));
}

absl::StatusOr<MarvellStrength> StrengthAlong(const v1::GradientProtection::Marvell& config) {
  switch (config.strength_case()) {
    case v1::GradientProtection::Marvell::kS:
      SPLITVEIL_RETURN_IF_ERROR(CheckPositive("s", config.s()));
      return MarvellStrength{config.s(), {}, absl::StrCat("s=", config.s()), 0};
    case v1::GradientProtection::Marvell::kSumKl:
      SPLITVEIL_RETURN_IF_ERROR(CheckPositive("sum_kl", config.sum_kl()));
      return MarvellStrength{0, {config.sum_kl()}, absl::StrCat("sum_kl=", config.sum_kl()), 0};
    case v1::GradientProtection::Marvell::kDetectionError: {
      SPLITVEIL_ASSIGN_OR_RETURN(double sum_kl, SumKlForDetectionError(config.detection_error()));
      return MarvellStrength{0, {sum_kl}, absl::StrCat("detection_error=", config.detection_error()), 0};
    }
    case v1::GradientProtection::Marvell::kRunBudget: {
      SPLITVEIL_ASSIGN_OR_RETURN(std::vector<double> shares, PlanRunBudget(config.run_budget()));
      return MarvellStrength{0, std::move(shares),
                             absl::StrCat("max_run_auc_bound=", config.run_budget().max_run_auc_bound()), 0};
    }
    case v1::GradientProtection::Marvell::STRENGTH_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("protection.marvell: set one of s, sum_kl, detection_error, run_budget");
}

// The optimum for the model's classes, then noise across dg alike in both, and as much along dg, alike in both again,
// as keeps noise along dg no less than across it. The same variance on top of both classes lowers every term of SumKl,
// (a - a')^2 / (a a') and ||dg||^2 (1/a + 1/a'), so that no divergence rises; lifting one class alone may raise it.
MarvellSolution WithNoiseAcross(MarvellSolution noise, double orthogonal_noise_ratio, const ClassMoments& moments) {
  const double axes_across = static_cast<double>(moments.mean_difference.size()) - 1;
  if (axes_across > 0) {
    // The optimum of the paper spends nearly nothing across dg, where an adversary that knows an example's own v still
    // reads its label (rule 8).
    const double variance = orthogonal_noise_ratio * moments.dg_squared / axes_across;
    noise.lambda2_neg += variance;
    noise.lambda2_pos += variance;
    const double short_along =
        std::max({0.0, noise.lambda2_neg - noise.lambda1_neg, noise.lambda2_pos - noise.lambda1_pos});
    noise.lambda1_neg += short_along;
    noise.lambda1_pos += short_along;
  }
  return noise;
}

// Whether noise of these variances would change any row of the batch, beyond the rounding of its float components.
bool Reaches(const ClassMoments& batch, const MarvellSolution& noise) {
  constexpr double kFloatResolutionSquared = 0x1p-46;
  return std::max(noise.lambda1_neg, noise.lambda1_pos) > kFloatResolutionSquared * batch.max_squared_norm;
}

std::vector<float> UnitVector(const ClassMoments& moments) {
  const double norm = std::sqrt(moments.dg_squared);
  std::vector<float> direction(moments.mean_difference.size());
  std::transform(moments.mean_difference.begin(), moments.mean_difference.end(), direction.begin(),
                 [norm](double component) { return static_cast<float>(component / norm); });
  return direction;
}

// Noise across is drawn in every direction, the line included, so along the line only the rest is added.
RowNoise NoiseOf(double lambda1, double lambda2) {
  return {0, std::sqrt(std::max(0.0, lambda1 - lambda2)), std::sqrt(lambda2)};
}

}  // namespace

double MarvellStrength::SumKlOf(uint32_t epoch) const {
  return sum_kls.empty() ? std::numeric_limits<double>::infinity()
                         : sum_kls[std::min<size_t>(epoch, sum_kls.size() - 1)];
}

absl::StatusOr<MarvellStrength> MarvellStrengthOf(const v1::GradientProtection::Marvell& config) {
  SPLITVEIL_ASSIGN_OR_RETURN(MarvellStrength strength, StrengthAlong(config));
  if (config.orthogonal_noise_ratio() != 0) {
    SPLITVEIL_RETURN_IF_ERROR(CheckPositive("orthogonal_noise_ratio", config.orthogonal_noise_ratio()));
    strength.orthogonal_noise_ratio = config.orthogonal_noise_ratio();
    absl::StrAppend(&strength.name, ",orthogonal_noise_ratio=", config.orthogonal_noise_ratio());
  }
  return strength;
}

absl::StatusOr<MarvellSolution> SolveMarvellFor(const MarvellStrength& strength, uint32_t epoch, double max_sum_kl,
                                                const ClassMoments& moments) {
  MarvellProblem problem;
  problem.d = static_cast<int64_t>(moments.mean_difference.size());
  problem.u = moments.u;
  problem.v = moments.v;
  problem.g = moments.dg_squared;
  problem.p = moments.p;
  if (strength.sum_kls.empty()) {
    // The paper's P = s ||dg||^2: the strength follows the gradients, which shrink as the model learns.
    problem.power = strength.s * moments.dg_squared;
    SPLITVEIL_ASSIGN_OR_RETURN(const MarvellSolution solution, SolveMarvell(problem));
    // The configured power is enough; otherwise the least power that keeps the limit.
    if (solution.sum_kl <= max_sum_kl) {
      return WithNoiseAcross(solution, strength.orthogonal_noise_ratio, moments);
    }
  }
  SPLITVEIL_ASSIGN_OR_RETURN(MarvellPower least,
                             LeastMarvellPower(problem, std::min(max_sum_kl, strength.SumKlOf(epoch))));
  return WithNoiseAcross(least.solution, strength.orthogonal_noise_ratio, moments);
}

std::string MarvellPlanner::name() const { return absl::StrCat("marvell(", strength_.name, ")"); }

absl::StatusOr<NoisePlan> MarvellPlanner::Plan(const BatchFacts& batch, double max_sum_kl) const {
  if (batch.moments.informative()) {
    SPLITVEIL_ASSIGN_OR_RETURN(const MarvellSolution noise,
                               SolveMarvellFor(strength_, batch.position.epoch, max_sum_kl, batch.moments));
    // Noise below the rounding of floats would not change the rows.
    if (Reaches(batch.moments, noise)) {
      return NoisePlan{ReportOf("marvell", batch.moments,
                                {noise.lambda1_neg, noise.lambda2_neg, noise.lambda1_pos, noise.lambda2_pos}),
                       GaussianNoise{UnitVector(batch.moments), NoiseOf(noise.lambda1_neg, noise.lambda2_neg),
                                     NoiseOf(noise.lambda1_pos, noise.lambda2_pos)}};
    }
  }
  // No direction to protect, but still noise: a batch that is sent in the clear discloses what its rows are.
  const double s = strength_.sum_kls.empty() ? strength_.s : 1 / strength_.SumKlOf(batch.position.epoch);
  return PlanIsotropicNoise(batch, "marvell+fallback", s * batch.moments.Scale(), max_sum_kl);
}

namespace {

constexpr double kLeastShare = 1e-9;          // Nats. Noise below this would drown every gradient in rounding.
constexpr double kPlannedShare = 7.0 / 8;     // Spent by the plan if releases may follow it.
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
  // Every epoch has to get a share that is known beforehand; an open end would leave nothing for the last.
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
  // Kept back for rounding, so that the last planned release is not refused by a hair.
  return (1 - kSafetyShare) * SumKlForRunAuc(budget.max_run_auc_bound());
}

absl::StatusOr<std::vector<double>> PlanRunBudget(const v1::GradientProtection::RunBudget& budget) {
  SPLITVEIL_RETURN_IF_ERROR(CheckBudget(budget));
  const double growth = budget.noise_growth_per_epoch();
  const int last = budget.planned_epochs() - 1;
  std::vector<double> shares(static_cast<size_t>(budget.planned_epochs()));
  for (int e = 0; e <= last; ++e) {
    // Relative to the largest, so that none overflows.
    // Shares fall by `growth` from epoch to epoch: a divergence is about inverse to the variance of the noise.
    shares[e] = growth >= 1 ? std::pow(growth, -e) : std::pow(growth, last - e);
  }
  // If noise may be raised at the end, a share is kept back: half of what remains must stay usable.
  const bool more_to_come = budget.when_spent() == v1::RAISE_NOISE;
  // What is counted must stay below the limit, too: without room for its rounding, the last release would be refused.
  const double room = kSolverShare + kSumRounding * budget.planned_epochs();
  const double spendable = SpendableSumKl(budget) * std::max(0.0, 1 - room) * (more_to_come ? kPlannedShare : 1.0);
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
