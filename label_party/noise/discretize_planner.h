// `discretize`: DiscreteSGD (Fu et al., "Label inference attacks against vertical federated learning", USENIX Security
// 2022, section 6).
#ifndef SPLITVEIL_LABEL_PARTY_NOISE_DISCRETIZE_PLANNER_H_
#define SPLITVEIL_LABEL_PARTY_NOISE_DISCRETIZE_PLANNER_H_

#include <cstdint>
#include <string>

#include "label_party/noise/noise_planner.h"

namespace splitveil {

// Replaces each component by the nearest of `bins` values, equally spaced from mean - 2 sigma to mean + 2 sigma, mean
// and sigma over all components of the batch (the paper takes those of the first epoch); what lies beyond goes to the
// end. Biased, without randomness, and the same for every batch, whatever its classes. A baseline: states no
// divergence. A batch whose components are all equal is its own bin and leaves as it is.
class DiscretizePlanner final : public NoisePlanner {
 public:
  // bins >= 2.
  explicit DiscretizePlanner(int32_t bins) : bins_(bins) {}

  absl::StatusOr<NoisePlan> Plan(const BatchFacts& batch, double max_sum_kl) const override;
  Perturbation perturbation() const override { return Perturbation::kFixed; }
  std::string name() const override;

 private:
  const int32_t bins_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_NOISE_DISCRETIZE_PLANNER_H_
