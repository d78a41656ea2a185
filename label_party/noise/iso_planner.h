// `iso`: isotropic Gaussian noise (Li et al., ICLR 2022, sections 4.1 and 5.2).
#ifndef SPLITVEIL_LABEL_PARTY_NOISE_ISO_PLANNER_H_
#define SPLITVEIL_LABEL_PARTY_NOISE_ISO_PLANNER_H_

#include <string>
#include <utility>

#include "absl/status/statusor.h"

#include "label_party/noise/noise_planner.h"

#include "splitveil/v1/protection.pb.h"

namespace splitveil {

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

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_NOISE_ISO_PLANNER_H_
