// The mathematics of a method: from what is known of a batch to what is done to it.
#ifndef SPLITVEIL_LABEL_PARTY_NOISE_NOISE_PLANNER_H_
#define SPLITVEIL_LABEL_PARTY_NOISE_NOISE_PLANNER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/crypto/secure_gaussian.h"
#include "common/matrix/matrix.h"
#include "label_party/noise/class_moments.h"
#include "label_party/noise/noise_plan.h"

namespace splitveil {

// A batch before it is protected. Borrows rows and labels, which must outlive it.
struct BatchFacts {
  ConstMatrixView gradients;          // [batch, d], clean and finite.
  absl::Span<const uint8_t> labels;   // [batch], 0 or 1.
  NoisePosition position;             // Its epoch and batch; the stream is not read.
  std::vector<double> squared_norms;  // [batch], ||g_j||^2.
  ClassMoments moments;               // Of these gradients.
  RunningMoments running;             // Of the batches before this one.
};

// What a method does to gradients.
enum class Perturbation {
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
