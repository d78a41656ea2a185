// What a step lowers besides the utility loss, for one attribute.
#ifndef SPLITVEIL_NONLABEL_PARTY_PROTECTION_PRIVACY_OBJECTIVE_H_
#define SPLITVEIL_NONLABEL_PARTY_PROTECTION_PRIVACY_OBJECTIVE_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/matrix/matrix.h"
#include "common/model/parameters.h"
#include "nonlabel_party/protection/privacy_loss.h"

#include "splitveil/v1/activation_protection.pb.h"

namespace splitveil {

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
