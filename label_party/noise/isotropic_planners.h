// The methods `iso` and `max_norm` (Li et al., ICLR 2022, section 4.1), and isotropic noise for those that fall back on
// it.
#ifndef SPLITVEIL_LABEL_PARTY_NOISE_ISOTROPIC_PLANNERS_H_
#define SPLITVEIL_LABEL_PARTY_NOISE_ISOTROPIC_PLANNERS_H_

#include <string>
#include <utility>

#include "absl/status/statusor.h"

#include "label_party/noise/class_moments.h"
#include "label_party/noise/noise_plan.h"
#include "label_party/noise/noise_planner.h"

#include "splitveil/v1/protection.pb.h"

namespace splitveil {

// The least variance per component of N(0, variance I) that brings the divergence of the classes of `moments` (two
// classes, d components) to at most `max_sum_kl` > 0; to 1e-9 of itself, on the side where the limit is kept. 0 where
// no noise is needed, +inf where a double cannot hold it. More noise never raises the divergence: each of its terms
// falls. Thread-safe.
double LeastIsotropicVariance(const ClassMoments& moments, double max_sum_kl);

// N(0, (total_power / d) I) on every row, or of more power where `max_sum_kl` asks for it. The report's divergence is
// that of the batch's own classes, else of the run's averages, else NaN. Thread-safe.
NoisePlan PlanIsotropicNoise(const BatchFacts& batch, const std::string& method, double total_power, double max_sum_kl);

// How much noise.
struct IsoStrength {
  double t = 1;      // Power of a row's noise relative to ||g_max||^2.
  std::string name;  // As configured: "t=1", "ratio=1".
};

// t, or ratio^2: a component's standard deviation is ratio ||g_max|| / sqrt(d). Errors: InvalidArgument for a strength
// that is missing, or not positive and finite.
absl::StatusOr<IsoStrength> IsoStrengthOf(const v1::GradientProtection::Iso& config);

// Adds N(0, (t/d) ||g_max||^2 I) to every row, g_max the longest gradient of the batch. Protects labels from who sees
// the perturbed gradients of one step; over steps divergences add. Does not use the direction in which the classes
// differ, so it takes more noise than Marvell for the same protection. A batch of zeros is perturbed on the scale of
// the run's average ||g_max||^2, or 1 before there is one ("iso+fallback").
class IsoPlanner final : public NoisePlanner {
 public:
  explicit IsoPlanner(IsoStrength strength) : strength_(std::move(strength)) {}

  absl::StatusOr<NoisePlan> Plan(const BatchFacts& batch, double max_sum_kl) const override;
  Perturbation perturbation() const override { return Perturbation::kNoise; }
  std::string name() const override;

 private:
  const IsoStrength strength_;
};

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

#endif  // SPLITVEIL_LABEL_PARTY_NOISE_ISOTROPIC_PLANNERS_H_
