// A budget for the whole run and its plan: what each epoch may disclose of an example (architecture rule 6).
#ifndef SPLITVEIL_LABEL_PARTY_MARVELL_RUN_BUDGET_H_
#define SPLITVEIL_LABEL_PARTY_MARVELL_RUN_BUDGET_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"

#include "splitveil/v1/protection.pb.h"

namespace splitveil {

// The share of a run's budget that is kept back: gradients are not quite Gaussian, and what is measured on the examples
// of one run scatters. It lowers an AUC of 0.7 by 0.0055, three standard errors over 100,000 examples.
inline constexpr double kSafetyShare = 0.06;

// The share of a limit by which targets stay below it: what the solvers may miss them by.
inline constexpr double kSolverShare = 1e-9;

// The largest divergence of all releases of an example together, in nats, at which an adversary that
// accumulates them has an AUC of at most `max_run_auc_bound` for Gaussian classes: K = 2 Phi^-1(max_run_auc_bound)^2,
// GaussianAucBound inverted. GaussianAucBound of the result is at most max_run_auc_bound, to the last bit. 0 at 0.5 and
// below; infinite at 1 and above. Thread-safe.
double SumKlForRunAuc(double max_run_auc_bound);

// What a run budget lets the releases of an example come to: K of its max_run_auc_bound, less kSafetyShare.
// Thread-safe.
double SpendableSumKl(const v1::GradientProtection::RunBudget& budget);

// What an example may be released at in each planned epoch: sum_kl[e] = K' noise_growth_per_epoch^-e / sum over f of
// noise_growth_per_epoch^-f, with K' = SpendableSumKl less kSolverShare, and 7/8 of that where releases after the plan
// get half of what is left. An example is in at most one batch per epoch, so that the plan spends at most K'. Errors:
// InvalidArgument, with field, expected and found, for max_run_auc_bound outside (0.5, 1), planned_epochs below 1 (0 is
// to be filled in, see FillPlannedEpochs), noise_growth_per_epoch that is not positive and finite or leaves an epoch
// less than 1e-9 nats, and when_spent not set to one of its values. Thread-safe.
absl::StatusOr<std::vector<double>> PlanRunBudget(const v1::GradientProtection::RunBudget& budget);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_MARVELL_RUN_BUDGET_H_
