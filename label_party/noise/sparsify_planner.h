// `sparsify`: only the largest components leave (Lin et al., ICLR 2018; Fu et al., USENIX Security 2022).
#ifndef SPLITVEIL_LABEL_PARTY_NOISE_SPARSIFY_PLANNER_H_
#define SPLITVEIL_LABEL_PARTY_NOISE_SPARSIFY_PLANNER_H_

#include <string>

#include "label_party/noise/noise_planner.h"

namespace splitveil {

// Keeps the ceil(keep n) of a batch's n components that are largest in magnitude (of equal ones the first) and sets the
// others to zero. Biased, without randomness, and the same for every batch, whatever its classes. A baseline: states no
// divergence, and a kept component leaves as it is, so that a batch of one class is no safer than without it.
class SparsifyPlanner final : public NoisePlanner {
 public:
  // keep in (0, 1).
  explicit SparsifyPlanner(double keep) : keep_(keep) {}

  absl::StatusOr<NoisePlan> Plan(const BatchFacts& batch, double max_sum_kl) const override;
  Perturbation perturbation() const override { return Perturbation::kFixed; }
  std::string name() const override;

 private:
  const double keep_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_NOISE_SPARSIFY_PLANNER_H_
