// `none`: sends the gradients as they are.
#ifndef SPLITVEIL_LABEL_PARTY_PROTECTION_NONE_PLANNER_H_
#define SPLITVEIL_LABEL_PARTY_PROTECTION_NONE_PLANNER_H_

#include <string>

#include "label_party/noise/noise_planner.h"

namespace splitveil {

// Protects nothing: every label of a batch shows in its gradients. The yardstick of the other methods; the report still
// states the divergence of the classes. Refuses (FailedPrecondition) every limit.
class NonePlanner final : public NoisePlanner {
 public:
  absl::StatusOr<NoisePlan> Plan(const BatchFacts& batch, double max_sum_kl) const override;
  Perturbation perturbation() const override { return Perturbation::kNone; }
  std::string name() const override { return "none"; }
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_PROTECTION_NONE_PLANNER_H_
