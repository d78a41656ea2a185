// An adversary that the protection plays itself: it learns to read an attribute from what leaves.
#ifndef SPLITVEIL_NONLABEL_PARTY_PROTECTION_SIMULATED_ADVERSARY_H_
#define SPLITVEIL_NONLABEL_PARTY_PROTECTION_SIMULATED_ADVERSARY_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/matrix/matrix.h"
#include "common/model/layer_stack.h"
#include "common/model/parameters.h"
#include "nonlabel_party/protection/privacy_loss.h"

namespace splitveil {

// Two hidden layers of 64 and 32 and a softmax over the values, learning by Adam at 0.001, one step a batch, on the
// activations as they leave. Not thread-safe.
class SimulatedAdversary {
 public:
  // Errors: InvalidArgument as LayerStack::Create.
  static absl::StatusOr<std::unique_ptr<SimulatedAdversary>> Create(int64_t cut_width, int64_t values, uint64_t seed);

  // Which value its cross-entropy is taken with.
  enum class Target {
    kTrue,  // The attribute.
    // Another than it takes for the most likely: of two the other one, of several the least likely (label flip:
    // Pittaluga et al., WACV 2019).
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

}  // namespace splitveil

#endif  // SPLITVEIL_NONLABEL_PARTY_PROTECTION_SIMULATED_ADVERSARY_H_
