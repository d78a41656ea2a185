#include "nonlabel_party/protection/privacy_objective.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#include "common/model/optimizer_options.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

using v1::ActivationProtection;

constexpr int64_t kHiddenUnits[] = {64, 32};

// Softmax of a row of logits.
std::vector<double> Probabilities(absl::Span<const float> logits) {
  // Relative to the largest, or exp would overflow.
  const double largest = *std::max_element(logits.begin(), logits.end());
  std::vector<double> result;
  double sum = 0;
  for (const float logit : logits) {
    sum += result.emplace_back(std::exp(logit - largest));
  }
  for (double& probability : result) {
    probability /= sum;
  }
  return result;
}

// A value that is not the most likely.
size_t Flipped(const std::vector<double>& probabilities) {
  return static_cast<size_t>(std::min_element(probabilities.begin(), probabilities.end()) - probabilities.begin());
}

// Mean cross-entropy of `logits` [batch, values] over the known examples, and its derivative.
ActivationLoss SoftmaxLoss(ConstMatrixView logits, const BatchAttribute& attribute, SimulatedAdversary::Target target) {
  ActivationLoss loss{0, Matrix(logits.rows(), logits.cols())};
  const auto is_known = [&](uint8_t number) { return number < attribute.values; };
  // The mean is over known examples alone: those of unknown value must not dilute the loss.
  const auto known = static_cast<double>(std::count_if(attribute.numbers.begin(), attribute.numbers.end(), is_known));
  for (int64_t i = 0; i < logits.rows(); ++i) {
    const uint8_t own = attribute.numbers[static_cast<size_t>(i)];
    if (!is_known(own)) {
      continue;
    }
    const std::vector<double> probabilities = Probabilities(logits.row(i));
    const size_t wanted = target == SimulatedAdversary::Target::kTrue ? own : Flipped(probabilities);
    // Bounded, since a probability may underflow to 0.
    loss.value -= std::log(std::max(probabilities[wanted], 1e-300)) / known;
    for (size_t v = 0; v < probabilities.size(); ++v) {
      loss.gradient.row(i)[v] = static_cast<float>((probabilities[v] - (v == wanted ? 1 : 0)) / known);
    }
  }
  return loss;
}

// `loss` by the mean over the batch, as LayerStack's Update takes gradients.
void TimesRows(Matrix& gradient) {
  std::transform(gradient.data(), gradient.data() + gradient.size(), gradient.data(),
                 [&](float value) { return value * static_cast<float>(gradient.rows()); });
}

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
    // First it learns from this batch, so that the model meets an adversary that keeps up with it.
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
  // Full covariances of a wide cut layer cost d^3 a step.
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

absl::StatusOr<std::unique_ptr<SimulatedAdversary>> SimulatedAdversary::Create(int64_t cut_width, int64_t values,
                                                                               uint64_t seed) {
  LayerStack::Options options;
  options.chain.field = "simulated adversary";
  options.chain.input_width = cut_width;
  for (const int64_t units : kHiddenUnits) {
    v1::Layer& hidden = options.chain.layers.emplace_back();
    hidden.set_name(absl::StrCat("hidden", options.chain.layers.size()));
    hidden.set_units(static_cast<int32_t>(units));
    hidden.set_activation(v1::RELU);
  }
  v1::Layer& logits = options.chain.layers.emplace_back();
  logits.set_name("logits");
  logits.set_units(static_cast<int32_t>(values));
  logits.set_activation(v1::LINEAR);
  // Fixed and not the model's own: the strength of this adversary is part of the method.
  options.optimizer = OptimizerOptions();  // Adam at 0.001.
  options.seed = seed;
  SPLITVEIL_ASSIGN_OR_RETURN(std::unique_ptr<LayerStack> layers, LayerStack::Create(options));
  return std::unique_ptr<SimulatedAdversary>(new SimulatedAdversary(std::move(layers)));
}

absl::StatusOr<ActivationLoss> SimulatedAdversary::CrossEntropy(ConstMatrixView sent, const BatchAttribute& attribute,
                                                                Target target) const {
  SPLITVEIL_ASSIGN_OR_RETURN(const LayerPass pass, layers_->Forward(sent));
  const ActivationLoss at_logits = SoftmaxLoss(pass.output(), attribute, target);
  SPLITVEIL_ASSIGN_OR_RETURN(Matrix gradient, layers_->InputGradient(pass, at_logits.gradient));
  return ActivationLoss{at_logits.value, std::move(gradient)};
}

absl::Status SimulatedAdversary::Learn(ConstMatrixView sent, const BatchAttribute& attribute) {
  SPLITVEIL_ASSIGN_OR_RETURN(LayerPass pass, layers_->Forward(sent));
  ActivationLoss loss = SoftmaxLoss(pass.output(), attribute, Target::kTrue);
  if (loss.value == 0) {  // Known of no example: Adam's moments would move the weights all the same.
    return absl::OkStatus();
  }
  TimesRows(loss.gradient);
  SPLITVEIL_RETURN_IF_ERROR(layers_->Backward(pass, loss.gradient, {}).status());
  pass = LayerPass();  // It holds the parameters, which the update would have to copy.
  return LayerStack::Update({layers_.get()});
}

NamedParameters SimulatedAdversary::TrainingState() const {
  return CopyTrainingState(Joined({layers_->parameters(""), layers_->optimizer_state("")}), layers_->steps());
}

absl::Status SimulatedAdversary::SetTrainingState(const NamedParameters& state) {
  SPLITVEIL_ASSIGN_OR_RETURN(
      const int64_t steps, AssignTrainingState(state, Joined({layers_->parameters(""), layers_->optimizer_state("")})));
  layers_->set_steps(steps);
  return absl::OkStatus();
}

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
