// `marvell`: the Gaussian noise of least symmetrised KL divergence for its power (Li et al., ICLR 2022, section 4.2).
#ifndef SPLITVEIL_LABEL_PARTY_MARVELL_MARVELL_PLANNER_H_
#define SPLITVEIL_LABEL_PARTY_MARVELL_MARVELL_PLANNER_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

#include "label_party/marvell/marvell_solver.h"
#include "label_party/noise/class_moments.h"
#include "label_party/noise/noise_planner.h"

#include "splitveil/v1/protection.pb.h"

namespace splitveil {

// How much noise: a power, or the divergence that may remain.
struct MarvellStrength {
  double s = 4;                 // Of P = s ||dg||^2, where there are no sum_kls.
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
// sum_kl to `max_sum_kl` where that is more; and the noise across dg on top, with as much along dg in both classes as
// keeps lambda2 <= lambda1. That never raises the divergence, but for rounding (the solution's sum_kl is that of the
// optimum, an upper bound). Errors: as LeastMarvellPower.
absl::StatusOr<MarvellSolution> SolveMarvellFor(const MarvellStrength& strength, uint32_t epoch, double max_sum_kl,
                                                const ClassMoments& moments);

// Row j of class c becomes g_j + sqrt(lambda1_c - lambda2_c) z_j dg/||dg|| + sqrt(lambda2_c) eta_j, with the lambdas of
// SolveMarvell for the moments that the batch is expected to have (ClassMoments). The paper takes those of the labels
// that are there: direction and size of the noise on all other rows would then tell a single label to one who knows
// theirs, at an AUC of 0.99 for a few positives. A batch of many rows has the same moments up to sampling.
//
// Protects the label of every row from who sees the perturbed gradients of one step: no score has an AUC above
// AucBound(sum_kl), as far as labels are drawn from the model's own predictions and the gradients of a class are
// N(mean, variance I). Over steps the sum_kl of the releases of one example add. Does not protect the direction dg,
// which the noise itself points along, nor the share of positives. Where the spread of the classes is not the same in
// every direction, what lies across dg tells more than the bound says: orthogonal_noise_ratio is the answer to that. A
// row that its label moves further than most, as the peer may choose, is told apart more easily than a class:
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

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_MARVELL_MARVELL_PLANNER_H_
