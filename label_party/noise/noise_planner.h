// The mathematics of a method: from what is known of a batch to what is done to it. Marvell has a folder of its own.
#ifndef SPLITVEIL_LABEL_PARTY_NOISE_NOISE_PLANNER_H_
#define SPLITVEIL_LABEL_PARTY_NOISE_NOISE_PLANNER_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

#include "common/crypto/secure_gaussian.h"
#include "label_party/noise/noise_plan.h"

#include "splitveil/v1/protection.pb.h"

namespace splitveil {

// What a method may know of a batch: nothing that a label has moved, so that the noise on one row reveals its own
// label alone, and of that no more than the report says.
struct BatchFacts {
  NoisePosition position;  // Its epoch and batch; the stream is not read.
  ClassMoments moments;    // Of any labels that it might have.

  double cols() const { return static_cast<double>(moments.mean_difference.size()); }
};

// Plans how to protect a batch. Pure: the same facts give the same plan, nothing is drawn or remembered. Every method
// but sparsify and discretize is unbiased: E[applied | gradients] = gradients. Thread-safe.
class NoisePlanner {
 public:
  virtual ~NoisePlanner() = default;

  // Noise as configured, or more: as much as brings the report's sum_kl to `max_sum_kl` (> 0) or below. If the report
  // does not keep the limit, the caller has to act. A batch of one class cannot be recognised here; it is protected
  // like any other, and so are gradients of zero (architecture rule 3). Errors: those of the method's solver.
  virtual absl::StatusOr<NoisePlan> Plan(const BatchFacts& batch, double max_sum_kl) const = 0;
  virtual bool draws_noise() const = 0;
  // Short name with its parameter, for reports: "marvell(s=4)".
  virtual std::string name() const = 0;
};

// The least variance per component of N(0, variance I) that brings the divergence of the classes of `moments` (d
// components) to at most `max_sum_kl` > 0; to 1e-9 of itself, on the side that keeps the limit. 0 if
// no noise is needed, +inf if a double cannot hold it. More noise never raises the divergence: each of its terms
// falls. Thread-safe.
double LeastIsotropicVariance(const ClassMoments& moments, double max_sum_kl);

// N(0, (total_power / d) I) on every row, or of more power if `max_sum_kl` asks for it. Thread-safe.
NoisePlan PlanIsotropicNoise(const BatchFacts& batch, const std::string& method, double total_power, double max_sum_kl);

// How much noise.
struct IsoStrength {
  double t = 1;      // Power of a row's noise relative to ||g_max||^2.
  std::string name;  // As configured: "t=1", "ratio=1".
};

// t, or ratio^2: a component's standard deviation is ratio ||g_max|| / sqrt(d). Errors: InvalidArgument for a strength
// that is missing, or not positive and finite.
absl::StatusOr<IsoStrength> IsoStrengthOf(const v1::GradientProtection::Iso& config);

// Adds N(0, (t/d) ||g_max||^2 I) to every row, g_max the longest gradient that any label of the batch could give: in
// the paper the longest that is there, which labels choose, so that the noise on all rows together would show it. What
// the noise hides is the label of every row from an adversary that sees the perturbed gradients of one step; over steps
// divergences add. Does not use the direction in which the classes differ, so it takes more noise than Marvell for the
// same protection. A batch whose labels move nothing is perturbed on the scale of 1 ("iso+fallback").
class IsoPlanner final : public NoisePlanner {
 public:
  explicit IsoPlanner(IsoStrength strength) : strength_(std::move(strength)) {}

  absl::StatusOr<NoisePlan> Plan(const BatchFacts& batch, double max_sum_kl) const override;
  bool draws_noise() const override { return true; }
  std::string name() const override;

 private:
  const IsoStrength strength_;
};

// Name in reports of batches that the method's own noise reaches: along each row, as the audit must know.
inline constexpr char kMaxNormMethod[] = "max_norm";

// out_j = g_j + sigma_j z_j g_j with one scalar z_j ~ N(0, 1) a row and sigma_j = sqrt(||g_max||^2 / ||g_j||^2 - 1),
// g_max as iso's, so that E||out_j||^2 = ||g_max||^2 for every row. A row of zeros has no line of its own and gets
// isotropic noise of total power ||g_max||^2. A heuristic: it hides the norm, not the line of a gradient, states no
// divergence (sum_kl is NaN), and leaves a row that is itself the longest as it is. If every label of every row
// would give the same length, rows would be sent in the clear; they get isotropic noise of total power ||g_max||^2
// ("max_norm+fallback").
class MaxNormPlanner final : public NoisePlanner {
 public:
  absl::StatusOr<NoisePlan> Plan(const BatchFacts& batch, double max_sum_kl) const override;
  bool draws_noise() const override { return true; }
  std::string name() const override { return kMaxNormMethod; }
};

// `sparsify` (Lin et al., ICLR 2018; Fu et al., USENIX Security 2022): KeepLargest. Biased, without randomness, and the
// same for every batch, whatever its classes. A baseline: states no divergence, a kept component is sent as it is, so
// that a batch of one class is no safer than without it, and which are kept depends on other rows' labels.
class SparsifyPlanner final : public NoisePlanner {
 public:
  // keep in (0, 1).
  explicit SparsifyPlanner(double keep) : keep_(keep) {}

  absl::StatusOr<NoisePlan> Plan(const BatchFacts& batch, double max_sum_kl) const override;
  bool draws_noise() const override { return false; }
  std::string name() const override;

 private:
  const double keep_;
};

// `discretize`, DiscreteSGD (Fu et al., "Label inference attacks against vertical federated learning", USENIX Security
// 2022, section 6; the paper takes mean and deviation of the first epoch): RoundToBins. Biased, without randomness, and
// the same for every batch, whatever its classes. A baseline: states no divergence, and the bins depend on all labels.
// A batch whose components are all equal is its own bin and is sent as it is.
class DiscretizePlanner final : public NoisePlanner {
 public:
  // bins >= 2.
  explicit DiscretizePlanner(int32_t bins) : bins_(bins) {}

  absl::StatusOr<NoisePlan> Plan(const BatchFacts& batch, double max_sum_kl) const override;
  bool draws_noise() const override { return false; }
  std::string name() const override;

 private:
  const int32_t bins_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_NOISE_NOISE_PLANNER_H_
