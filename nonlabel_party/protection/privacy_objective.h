// What a step lowers besides the utility loss, for one attribute.
#ifndef SPLITVEIL_NONLABEL_PARTY_PROTECTION_PRIVACY_OBJECTIVE_H_
#define SPLITVEIL_NONLABEL_PARTY_PROTECTION_PRIVACY_OBJECTIVE_H_

#include <cstdint>
#include <memory>
#include <utility>

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

  // Which value its cross-entropy is taken with.
  enum class Target {
    kTrue,  // The attribute.
    // A value that it takes for unlikely: of two the other one, of several the least likely (label flip: Pittaluga et
    // al., WACV 2019).
    kFlipped,
  };
  // Its mean cross-entropy over the examples whose attribute is known, nats, and the derivative by `sent` [batch,
  // cut_width]. Errors: InvalidArgument for another shape; Internal from LibTorch.
  absl::StatusOr<ActivationLoss> CrossEntropy(ConstMatrixView sent, const BatchAttribute& attribute,
                                              Target target) const;
  // One step on the true attribute. Nothing where it is known of no example. Errors: the same.
  absl::Status Learn(ConstMatrixView sent, const BatchAttribute& attribute);

  // What its learning goes on from.
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

  // Of a batch's activations f(x), and as they leave: with noise. The derivative is by either, which are the same but
  // for what does not depend on the model. Errors: InvalidArgument for other shapes; Internal from LibTorch.
  virtual absl::StatusOr<ActivationLoss> Of(ConstMatrixView activations, ConstMatrixView sent,
                                            const BatchAttribute& attribute) = 0;
  // What it has learnt, for checkpoints; empty where it learns nothing.
  virtual NamedParameters TrainingState() const { return {}; }
  virtual absl::Status SetTrainingState(const NamedParameters&) { return absl::OkStatus(); }
};

// L_p for linear, infocensor and pareto (privacy_loss.h), for adversarial and adversarial_label_flip what a simulated
// adversary makes of it, which learns with every call; null for methods without one. `cut_width`, `values`: of what
// comes. Errors: as LayerStack::Create.
absl::StatusOr<std::unique_ptr<PrivacyObjective>> CreateObjective(const v1::ActivationProtection& protection,
                                                                  int64_t cut_width, int64_t values, uint64_t seed);

}  // namespace splitveil

#endif  // SPLITVEIL_NONLABEL_PARTY_PROTECTION_PRIVACY_OBJECTIVE_H_
