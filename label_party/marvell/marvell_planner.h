// `marvell`: the Gaussian noise of least symmetrised KL divergence for its power (Li et al., ICLR 2022, section 4.2),
// and what a budget for the whole run lets each epoch disclose (architecture rule 6).
#ifndef SPLITVEIL_LABEL_PARTY_MARVELL_MARVELL_PLANNER_H_
#define SPLITVEIL_LABEL_PARTY_MARVELL_MARVELL_PLANNER_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

#include "label_party/marvell/marvell_solver.h"
#include "label_party/noise/noise_plan.h"
#include "label_party/noise/noise_planner.h"

#include "splitveil/v1/protection.pb.h"

namespace splitveil {

// How much noise: a power, or the divergence that may remain.
struct MarvellStrength {
  double s = 4;                 // Of P = s ||dg||^2, if there are no sum_kls.
  std::vector<double> sum_kls;  // The largest sum_kl in epoch 0, 1, ...; the last holds for all later ones.
  std::string name;             // As configured: "s=4", "sum_kl=0.25", "detection_error=0.3", "max_run_auc_bound=0.7".
  // Noise besides, of power orthogonal_noise_ratio ||dg||^2, across dg and alike in both classes.
  double orthogonal_noise_ratio = 0;

  // The largest sum_kl in `epoch`; infinite for a power.
  double SumKlOf(uint32_t epoch) const;
};

// Errors: InvalidArgument for a strength that is missing or out of range.
absl::StatusOr<MarvellStrength> MarvellStrengthOf(const v1::GradientProtection::Marvell& config);

// The optimal noise for classes with these moments: of that strength in `epoch`, or of the least power that brings
// sum_kl to `max_sum_kl` if that is more; and the noise across dg on top, with as much along dg in both classes as
// keeps lambda2 <= lambda1. That never raises the divergence, but for rounding (the solution's sum_kl is the optimum's,
// an upper bound). Errors: see LeastMarvellPower.
absl::StatusOr<MarvellSolution> SolveMarvellFor(const MarvellStrength& strength, uint32_t epoch, double max_sum_kl,
                                                const ClassMoments& moments);

// Row j of class c becomes g_j + sqrt(lambda1_c - lambda2_c) z_j dg/||dg|| + sqrt(lambda2_c) eta_j, with the lambdas of
// SolveMarvell for the moments that the batch is expected to have (ClassMoments). The paper takes the moments of the
// true labels. Direction and size of the noise on all other rows would then reveal a single label to an adversary that
// knows the others, at an AUC of 0.99 for a few positives. A batch of many rows has the same moments up to sampling.
//
// Protects the label of every row from an adversary that sees the perturbed gradients of one step: no score has an AUC
// above AucBound(sum_kl), as far as labels are drawn from the model's own predictions and the gradients of a class are
// N(mean, variance I). Over steps the sum_kl of the releases of one example add. Does not protect the direction dg,
// which the noise itself points along, nor the share of positives. If the spread of the classes is not the same in
// every direction, the part across dg reveals more than the bound says: orthogonal_noise_ratio is the answer to that. A
// row that its label moves further than most, which the peer can arrange, is easier to classify than the bound says:
// release.max_worst_case_auc_bound limits that.
//
// A batch whose classes are not expected to differ, or whose noise would leave every row as it is, gets isotropic noise
// of total power s times the square of the longest gradient, s = 1/sum_kl for a divergence target, which is the s that
// reaches it for classes without spread ("marvell+fallback").
class MarvellPlanner final : public NoisePlanner {
 public:
  // s or every one of sum_kls > 0, as MarvellStrengthOf gives them.
  explicit MarvellPlanner(MarvellStrength strength) : strength_(std::move(strength)) {}

  absl::StatusOr<NoisePlan> Plan(const BatchFacts& batch, double max_sum_kl) const override;
  bool draws_noise() const override { return true; }
  std::string name() const override;

 private:
  const MarvellStrength strength_;
};

// The share of a run's budget that is kept back: gradients are not quite Gaussian, and what is measured on the examples
// of one run scatters. It lowers an AUC of 0.7 by 0.0055, three standard errors over 100,000 examples.
inline constexpr double kSafetyShare = 0.06;

// The share of a limit by which targets stay below it: what the solvers may miss them by.
inline constexpr double kSolverShare = 1e-9;

// The share by which one release at most rounds up the sum of what its examples were released at (LeakageAccountant).
inline constexpr double kSumRounding = 0x1p-23;

// The largest divergence of all releases of an example together, in nats, at which an adversary that
// accumulates them has an AUC of at most `max_run_auc_bound` for Gaussian classes: K = 2 Phi^-1(max_run_auc_bound)^2,
// GaussianAucBound inverted. GaussianAucBound of the result is at most max_run_auc_bound, to the last bit. 0 at 0.5 and
// below; infinite at 1 and above. Thread-safe.
double SumKlForRunAuc(double max_run_auc_bound);

// What a run budget lets the releases of an example come to: K of its max_run_auc_bound, less kSafetyShare.
// Thread-safe.
double SpendableSumKl(const v1::GradientProtection::RunBudget& budget);

// What an example may be released at in each planned epoch: sum_kl[e] = K' noise_growth_per_epoch^-e / sum over f of
// noise_growth_per_epoch^-f, with K' = SpendableSumKl less kSolverShare and kSumRounding an epoch, and 7/8 of that if
// releases after the plan get half of what is left. An example is in at most one batch per epoch, so that the plan
// spends at most K'. Errors: InvalidArgument, with field, expected and found, for max_run_auc_bound outside (0.5, 1),
// planned_epochs below 1 (0 is to be filled in, see FillPlannedEpochs), noise_growth_per_epoch that is not positive and
// finite or leaves an epoch less than 1e-9 nats, and when_spent not set to one of its values. Thread-safe.
absl::StatusOr<std::vector<double>> PlanRunBudget(const v1::GradientProtection::RunBudget& budget);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_MARVELL_MARVELL_PLANNER_H_
