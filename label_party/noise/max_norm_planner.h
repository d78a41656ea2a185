// `max_norm`: noise along each gradient that hides its norm (Li et al., ICLR 2022, section 4.1).
#ifndef SPLITVEIL_LABEL_PARTY_NOISE_MAX_NORM_PLANNER_H_
#define SPLITVEIL_LABEL_PARTY_NOISE_MAX_NORM_PLANNER_H_

#include <string>

#include "label_party/noise/noise_planner.h"

namespace splitveil {

// Name in reports of batches that the method's own noise reaches: along each row, as the audit must know.
inline constexpr char kMaxNormMethod[] = "max_norm";

// out_j = g_j + sigma_j z_j g_j with one scalar z_j ~ N(0, 1) a row and sigma_j = sqrt(||g_max||^2 / ||g_j||^2 - 1), so
// that E||out_j||^2 = ||g_max||^2 for every row. A row of zeros has no line of its own and gets isotropic noise of
// total power ||g_max||^2. A heuristic: it hides the norm, not the line of a gradient, states no divergence (sum_kl is
// NaN), and leaves the longest row as it is. A batch with one class, or with rows all of one norm, would leave in the
// clear; it gets isotropic noise of total power RunningMoments::FallbackScale ("max_norm+fallback").
class MaxNormPlanner final : public NoisePlanner {
 public:
  absl::StatusOr<NoisePlan> Plan(const BatchFacts& batch, double max_sum_kl) const override;
  Perturbation perturbation() const override { return Perturbation::kNoise; }
  std::string name() const override { return kMaxNormMethod; }
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_NOISE_MAX_NORM_PLANNER_H_
