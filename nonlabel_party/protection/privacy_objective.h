// What a step lowers besides the utility loss, for one attribute, and the direction that lowers both.
#ifndef SPLITVEIL_NONLABEL_PARTY_PROTECTION_PRIVACY_OBJECTIVE_H_
#define SPLITVEIL_NONLABEL_PARTY_PROTECTION_PRIVACY_OBJECTIVE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/matrix/matrix.h"
#include "common/model/layer_stack.h"
#include "common/model/parameters.h"
#include "nonlabel_party/protection/privacy_loss.h"

#include "splitveil/v1/activation_protection.pb.h"

namespace splitveil {

// An adversary that the protection plays itself: it learns to read an attribute from what is sent. Two hidden layers of
// 64 and 32 and a softmax over the values, learning by Adam at 0.001, one step a batch, on the
// activations as they are sent. Not thread-safe.
class SimulatedAdversary {
 public:
  // Errors: InvalidArgument as LayerStack::Create.
  static absl::StatusOr<std::unique_ptr<SimulatedAdversary>> Create(int64_t cut_width, int64_t values, uint64_t seed);

  // The value against which its cross-entropy is computed.
  enum class Target {
    kTrue,  // The attribute.
    // A value that it takes for unlikely: of two the other one, of several the least likely (label flip: Pittaluga et
    // al., WACV 2019).
    kFlipped,
  };
  // Its mean cross-entropy over the examples whose attribute is known, nats, and the derivative by `sent` [batch,
  // cut_width]. Errors: InvalidArgument for a wrong shape; Internal from LibTorch.
  absl::StatusOr<ActivationLoss> CrossEntropy(ConstMatrixView sent, const BatchAttribute& attribute,
                                              Target target) const;
  // One step on the true attribute; does nothing if no example's attribute is known. Errors: see CrossEntropy.
  absl::Status Learn(ConstMatrixView sent, const BatchAttribute& attribute);

  // What its learning resumes from.
  NamedParameters TrainingState() const;
  absl::Status SetTrainingState(const NamedParameters& state);

 private:
  explicit SimulatedAdversary(std::unique_ptr<LayerStack> layers) : layers_(std::move(layers)) {}

  std::unique_ptr<LayerStack> layers_;
};

// The loss of a method of v1::ActivationProtection. Not thread-safe.
class PrivacyObjective {
 public:
  virtual ~PrivacyObjective() = default;

  // The loss of a batch with activations f(x), sent as `sent`, which has the noise. The derivative may be taken by
  // either: they differ only by what does not depend on the model. Errors: InvalidArgument for wrong shapes; Internal
  // from LibTorch.
  virtual absl::StatusOr<ActivationLoss> Of(ConstMatrixView activations, ConstMatrixView sent,
                                            const BatchAttribute& attribute) = 0;
  // What it has learnt, for checkpoints; empty if it learns nothing.
  virtual NamedParameters TrainingState() const { return {}; }
  virtual absl::Status SetTrainingState(const NamedParameters&) { return absl::OkStatus(); }
};

// L_p for linear, infocensor and pareto (privacy_loss.h); for adversarial and adversarial_label_flip the loss of a
// simulated adversary, which learns with every call; null for methods without a privacy loss. `cut_width`, `values`: of
// the activations and of the attribute. Errors: see LayerStack::Create.
absl::StatusOr<std::unique_ptr<PrivacyObjective>> CreateObjective(const v1::ActivationProtection& protection,
                                                                  int64_t cut_width, int64_t values, uint64_t seed);

// A step's objectives: the utility loss L_u first, then the privacy losses.
struct Objectives {
  std::vector<double> losses;  // l, [m], m >= 2; not negative.
  std::vector<double>
      products;  // C = G'G, [m, m] row-major: inner products of the losses' gradients by the parameters.
  std::vector<bool> at_threshold;  // [m]: a privacy loss that must not rise; false for L_u.
};

struct ParetoDirection {
  // beta, [m] in [-1, 1]: the parameters go down along G beta. All 0: the search is at its end, there is no way that
  // does not raise a loss at its threshold.
  std::vector<double> weights;
  // The losses are Pareto-stationary, and the step goes along the front toward less L_u; else toward the front.
  bool at_front = false;
};

// The least norm of a convex combination of the gradients (Desideri, "Multiple-gradient descent algorithm", C. R. Acad.
// Sci. 2012): 0 if no direction lowers all losses, which is what Pareto-stationary means. `products`: [m, m].
double LeastCombinationNorm(const std::vector<double>& products, size_t m);

// Toward the front: C beta = k l with the largest k <= 1 that the box allows, which lowers each loss in proportion to
// itself (equation 11). At the front, which is where LeastCombinationNorm is at most `stationarity` times the longest
// gradient, or C has no inverse to speak of: min ||C beta - a||^2 over the box with (C beta)_i >= 0 for each loss at
// its threshold; a, orthogonal to l, is the anchor of equation 7 for the preference r = (1, 0, ..., 0), whose inverse
// stands for its limit, (0, 1, ..., 1). The minimum is found among the stationary points of all faces of the box and of
// the constraints, 3^m 2^k of them, in closed form: m is two or three, at most 7. Thread-safe.
ParetoDirection FindParetoDirection(const Objectives& objectives, double stationarity);

// The anchor a of equation 7 for losses l.
std::vector<double> AnchorDirection(const std::vector<double>& losses);

}  // namespace splitveil

#endif  // SPLITVEIL_NONLABEL_PARTY_PROTECTION_PRIVACY_OBJECTIVE_H_
