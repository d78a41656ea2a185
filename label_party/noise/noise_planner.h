// The mathematics of a method: from what a batch is to what is done to it.
#ifndef SPLITVEIL_LABEL_PARTY_NOISE_NOISE_PLANNER_H_
#define SPLITVEIL_LABEL_PARTY_NOISE_NOISE_PLANNER_H_

#include <string>

#include "absl/status/statusor.h"

#include "label_party/noise/batch_facts.h"
#include "label_party/noise/noise_plan.h"

namespace splitveil {

// What a method does to gradients.
enum class Perturbation {
  kNone,   // Rows leave as they are, whatever the others of their batch: what is protected is not done here.
  kFixed,  // A function of the batch alone.
  kNoise,  // Draws, and goes by the run's class moments where a batch says nothing.
};

// Plans how to protect a batch. Pure: the same facts give the same plan, nothing is drawn or remembered. Every method
// but sparsify and discretize is unbiased: E[applied | gradients] = gradients. Thread-safe.
class NoisePlanner {
 public:
  virtual ~NoisePlanner() = default;

  // Noise as configured, or more: as much as brings the report's sum_kl to `max_sum_kl` (> 0) or below. The caller sees
  // to a limit that the report does not keep. Batches with one class and gradients of zero are protected too
  // (architecture rule 3). Errors: those of the method's solver.
  virtual absl::StatusOr<NoisePlan> Plan(const BatchFacts& batch, double max_sum_kl) const = 0;
  virtual Perturbation perturbation() const = 0;
  // Short name with its parameter, for reports: "marvell(s=4)".
  virtual std::string name() const = 0;
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_NOISE_NOISE_PLANNER_H_
