#include "label_party/top/wide_part.h"

#include <random>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"

#include "common/status/status_macros.h"

namespace splitveil {
namespace {

constexpr char kField[] = "model.wide";
constexpr char kName[] = "wide";

}  // namespace

absl::StatusOr<std::unique_ptr<WidePart>> WidePart::Create(const v1::WidePart& spec, const FeatureShape& features,
                                                           int64_t outputs, const OptimizerOptions& optimizer,
                                                           uint64_t seed) {
  std::mt19937_64 seeds(seed);

  InputLayer::Options input_options;
  input_options.field = kField;
  input_options.features = features;
  input_options.embedding = spec.has_embedding() ? &spec.embedding() : nullptr;
  input_options.optimizer = optimizer;
  input_options.seed = seeds();
  SPLITVEIL_ASSIGN_OR_RETURN(std::unique_ptr<InputLayer> input, InputLayer::Create(input_options));

  LayerStack::Options linear_options;
  linear_options.chain.field = kField;
  linear_options.chain.input_width = input->width();
  v1::Layer& layer = linear_options.chain.layers.emplace_back();
  layer.set_name(kName);
  layer.set_units(static_cast<int32_t>(outputs));
  layer.set_activation(v1::LINEAR);
  linear_options.optimizer = optimizer;
  linear_options.seed = seeds();
  linear_options.input_gradient = input->has_embedding();
  SPLITVEIL_ASSIGN_OR_RETURN(std::unique_ptr<LayerStack> linear, LayerStack::Create(linear_options));
  return absl::WrapUnique(new WidePart(std::move(input), std::move(linear)));
}

WidePart::WidePart(std::unique_ptr<InputLayer> input, std::unique_ptr<LayerStack> linear)
    : input_(std::move(input)), linear_(std::move(linear)) {}

absl::StatusOr<Matrix> WidePart::Predict(const FeatureBatch& own) const {
  Matrix storage;
  SPLITVEIL_ASSIGN_OR_RETURN(const ConstMatrixView input, input_->Assemble(own, ParameterUse::kPrediction, storage));
  return linear_->Predict(input);
}

absl::StatusOr<LayerPass> WidePart::Forward(const FeatureBatch& own, Matrix& storage) const {
  SPLITVEIL_ASSIGN_OR_RETURN(const ConstMatrixView input, input_->Assemble(own, ParameterUse::kTraining, storage));
  return linear_->Forward(input);
}

absl::StatusOr<StackGradients> WidePart::Backward(LayerPass& pass, ConstMatrixView logit_gradient) {
  return linear_->Backward(pass, logit_gradient, {});
}

absl::Status WidePart::UpdateEmbedding(absl::Span<const LookupGradient> parts) { return input_->Update(parts); }

std::vector<ParameterView> WidePart::parameters(ParameterUse use) {
  return Joined({input_->parameters(absl::StrCat(kName, "."), use), linear_->parameters("", use)});
}

std::vector<ParameterView> WidePart::optimizer_state() {
  return Joined({input_->optimizer_state(absl::StrCat(kName, ".")), linear_->optimizer_state("")});
}

void WidePart::set_steps(int64_t steps) {
  input_->set_steps(steps);
  linear_->set_steps(steps);
}

void WidePart::RestartAverage() {
  input_->RestartAverage();
  linear_->RestartAverage();
}

void WidePart::Describe(const std::string& variable, HalfScript& script) const {
  script.Assemble(variable, *input_, std::string(kName) + ".");
  script.Apply(variable, *linear_);
}

}  // namespace splitveil
