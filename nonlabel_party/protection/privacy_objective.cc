#include "nonlabel_party/protection/privacy_objective.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "common/status/status_macros.h"
#include "nonlabel_party/protection/simulated_adversary.h"

namespace splitveil {
namespace {

using v1::ActivationProtection;

class DivergenceObjective final : public PrivacyObjective {
 public:
  using Loss = std::function<ActivationLoss(ConstMatrixView, const BatchAttribute&)>;
  explicit DivergenceObjective(Loss loss) : loss_(std::move(loss)) {}

  absl::StatusOr<ActivationLoss> Of(ConstMatrixView activations, ConstMatrixView /*sent*/,
                                    const BatchAttribute& attribute) override {
    return loss_(activations, attribute);
  }

 private:
  const Loss loss_;
};

// Lowers the adversary's success: by raising its cross-entropy, or by lowering that with another value.
class AdversaryObjective final : public PrivacyObjective {
 public:
  AdversaryObjective(std::unique_ptr<SimulatedAdversary> adversary, SimulatedAdversary::Target target)
      : adversary_(std::move(adversary)), target_(target) {}

  absl::StatusOr<ActivationLoss> Of(ConstMatrixView /*activations*/, ConstMatrixView sent,
                                    const BatchAttribute& attribute) override {
    SPLITVEIL_RETURN_IF_ERROR(adversary_->Learn(sent, attribute));
    SPLITVEIL_ASSIGN_OR_RETURN(ActivationLoss loss, adversary_->CrossEntropy(sent, attribute, target_));
    if (target_ == SimulatedAdversary::Target::kTrue) {
      loss.value = -loss.value;
      std::transform(loss.gradient.data(), loss.gradient.data() + loss.gradient.size(), loss.gradient.data(),
                     std::negate<>());
    }
    return loss;
  }

  NamedParameters TrainingState() const override { return adversary_->TrainingState(); }
  absl::Status SetTrainingState(const NamedParameters& state) override { return adversary_->SetTrainingState(state); }

 private:
  const std::unique_ptr<SimulatedAdversary> adversary_;
  const SimulatedAdversary::Target target_;
};

DivergenceObjective::Loss DivergenceOf(const ActivationProtection& protection, int64_t cut_width) {
  const double sigma = protection.noise_sigma();
  const int64_t width = protection.pca_width();
  if (protection.has_infocensor()) {
    return [=](ConstMatrixView activations, const BatchAttribute& attribute) {
      return MarginalPrivacyLoss(activations, attribute, sigma);
    };
  }
  if (width > 0 && width < cut_width) {
    return [=](ConstMatrixView activations, const BatchAttribute& attribute) {
      return KernelPrivacyLoss(activations, attribute, sigma, width);
    };
  }
  return [=](ConstMatrixView activations, const BatchAttribute& attribute) {
    return GaussianPrivacyLoss(activations, attribute, sigma);
  };
}

}  // namespace

absl::StatusOr<std::unique_ptr<PrivacyObjective>> CreateObjective(const ActivationProtection& protection,
                                                                  int64_t cut_width, int64_t values, uint64_t seed) {
  switch (protection.method_case()) {
    case ActivationProtection::kLinear:
    case ActivationProtection::kInfocensor:
    case ActivationProtection::kPareto:
      return std::make_unique<DivergenceObjective>(DivergenceOf(protection, cut_width));
    case ActivationProtection::kAdversarial:
    case ActivationProtection::kAdversarialLabelFlip: {
      SPLITVEIL_ASSIGN_OR_RETURN(std::unique_ptr<SimulatedAdversary> adversary,
                                 SimulatedAdversary::Create(cut_width, values, seed));
      return std::make_unique<AdversaryObjective>(std::move(adversary), protection.has_adversarial()
                                                                            ? SimulatedAdversary::Target::kTrue
                                                                            : SimulatedAdversary::Target::kFlipped);
    }
    case ActivationProtection::kNone:
    case ActivationProtection::kGaussian:
    case ActivationProtection::METHOD_NOT_SET:
      break;
  }
  return nullptr;
}

}  // namespace splitveil
