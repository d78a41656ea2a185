#include "nonlabel_party/protection/simulated_adversary.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#include "common/model/optimizer_options.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

constexpr int64_t kHiddenUnits[] = {64, 32};

// Softmax of a row of logits.
std::vector<double> Probabilities(absl::Span<const float> logits) {
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

// Another value than the most likely.
size_t Flipped(const std::vector<double>& probabilities) {
  return static_cast<size_t>(std::min_element(probabilities.begin(), probabilities.end()) - probabilities.begin());
}

// Mean cross-entropy of `logits` [batch, values] over the known examples, and its derivative.
ActivationLoss SoftmaxLoss(ConstMatrixView logits, const BatchAttribute& attribute, SimulatedAdversary::Target target) {
  ActivationLoss loss{0, Matrix(logits.rows(), logits.cols())};
  const auto is_known = [&](uint8_t number) { return number < attribute.values; };
  const auto known = static_cast<double>(std::count_if(attribute.numbers.begin(), attribute.numbers.end(), is_known));
  for (int64_t i = 0; i < logits.rows(); ++i) {
    const uint8_t own = attribute.numbers[static_cast<size_t>(i)];
    if (!is_known(own)) {
      continue;
    }
    const std::vector<double> probabilities = Probabilities(logits.row(i));
    const size_t wanted = target == SimulatedAdversary::Target::kTrue ? own : Flipped(probabilities);
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
  if (loss.value == 0) {
    return absl::OkStatus();
  }
  TimesRows(loss.gradient);
  SPLITVEIL_RETURN_IF_ERROR(layers_->Backward(pass, loss.gradient, {}).status());
  pass = LayerPass();
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

}  // namespace splitveil
