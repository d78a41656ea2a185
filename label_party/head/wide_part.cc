#include "label_party/head/wide_part.h"

#include <random>
#include <string>
#include <utility>

#include "absl/memory/memory.h"

namespace splitveil {
namespace {

constexpr char kField[] = "top_model.wide";
constexpr char kName[] = "wide";

}  // namespace

absl::StatusOr<std::unique_ptr<WidePart>> WidePart::Create(const v1::WidePart& spec, const FeatureShape& features,
                                                           const AdamOptions& adam, uint64_t seed) {
  std::mt19937_64 seeds(seed);

  InputLayer::Options input_options;
  input_options.field = kField;
  input_options.features = features;
  input_options.embedding = spec.has_embedding() ? &spec.embedding() : nullptr;
  input_options.adam = adam;
  input_options.seed = seeds();
  absl::StatusOr<std::unique_ptr<InputLayer>> input = InputLayer::Create(input_options);
  if (!input.ok()) {
    return input.status();
  }

  DenseStack::Options linear_options;
  linear_options.field = kField;
  linear_options.input_width = (*input)->width();
  linear_options.layers.emplace_back();
  linear_options.layers.back().set_name(kName);
  linear_options.layers.back().set_units(1);
  linear_options.layers.back().set_activation(v1::LINEAR);
  linear_options.adam = adam;
  linear_options.seed = seeds();
  linear_options.input_gradient = (*input)->has_embedding();
  absl::StatusOr<std::unique_ptr<DenseStack>> linear = DenseStack::Create(linear_options);
  if (!linear.ok()) {
    return linear.status();
  }
  return absl::WrapUnique(new WidePart(*std::move(input), *std::move(linear)));
}

WidePart::WidePart(std::unique_ptr<InputLayer> input, std::unique_ptr<DenseStack> linear)
    : input_(std::move(input)), linear_(std::move(linear)) {}

absl::StatusOr<Matrix> WidePart::Predict(const FeatureBatch& own) const {
  Matrix storage;
  const absl::StatusOr<ConstMatrixView> input = input_->Assemble(own, storage);
  if (!input.ok()) {
    return input.status();
  }
  return linear_->Predict(*input);
}

absl::StatusOr<DensePass> WidePart::Forward(const FeatureBatch& own, Matrix& storage) const {
  const absl::StatusOr<ConstMatrixView> input = input_->Assemble(own, storage);
  if (!input.ok()) {
    return input.status();
  }
  return linear_->Forward(*input);
}

absl::Status WidePart::Backward(DensePass& pass, const FeatureBatch& own, ConstMatrixView logit_gradient) {
  absl::StatusOr<DenseGradients> gradients = linear_->Backward(pass, logit_gradient, {});
  if (!gradients.ok()) {
    return gradients.status();
  }
  input_gradient_ = std::move(gradients->input);
  categories_ = own.categories;
  return absl::OkStatus();
}

absl::Status WidePart::Update() {
  if (absl::Status status = linear_->Update(); !status.ok()) {
    return status;
  }
  return input_->Update(categories_, input_gradient_);
}

std::vector<ParameterView> WidePart::parameters() {
  std::vector<ParameterView> views = input_->parameters(std::string(kName) + ".");
  for (ParameterView& view : linear_->parameters("")) {
    views.push_back(std::move(view));
  }
  return views;
}

}  // namespace splitveil
