// `sparsify` and `discretize`: baselines that send less of each gradient, without noise and without a bound.
#ifndef SPLITVEIL_LABEL_PARTY_NOISE_COMPRESSION_PLANNERS_H_
#define SPLITVEIL_LABEL_PARTY_NOISE_COMPRESSION_PLANNERS_H_

#include <cstdint>
#include <string>

#include "label_party/noise/noise_planner.h"

namespace splitveil {

// `sparsify` (Lin et al., ICLR 2018; Fu et al., USENIX Security 2022): keeps the ceil(keep n) of a batch's n components
// that are largest in magnitude (of equal ones the first) and sets the others to zero. Biased, without randomness, and
// the same for every batch, whatever its classes. A baseline: states no divergence, and a kept component leaves as it
// is, so that a batch of one class is no safer than without it.
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

// `discretize`, DiscreteSGD (Fu et al., "Label inference attacks against vertical federated learning", USENIX Security
// 2022, section 6): replaces each component by the nearest of `bins` values, equally spaced from mean - 2 sigma to mean
// + 2 sigma, mean and sigma over all components of the batch (the paper takes those of the first epoch); what lies
// beyond goes to the end. Biased, without randomness, and the same for every batch, whatever its classes. A baseline:
// states no divergence. A batch whose components are all equal is its own bin and leaves as it is.
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

#endif  // SPLITVEIL_LABEL_PARTY_NOISE_COMPRESSION_PLANNERS_H_
