#include "common/model/dense_stack.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <exception>
#include <torch/csrc/autograd/autograd.h>
#include <torch/optim/adam.h>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"

namespace splitveil {
namespace {

constexpr int64_t kMaxUnits = 1048576;

struct Layer {
  std::string name;
  int64_t inputs = 0;
  int64_t units = 0;
  v1::Activation activation = v1::LINEAR;
};

// The boundary that no exception of LibTorch crosses.
template <typename Result, typename Body>
Result CatchTorchErrors(const char* operation, Body body) {
  try {
    return body();
  } catch (const c10::Error& error) {
    return absl::InternalError(absl::StrCat(operation, ": LibTorch: ", error.what_without_backtrace()));
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat(operation, ": ", error.what()));
  }
}

// Wraps the caller's memory. LibTorch has no read-only tensors; nothing here writes to these.
at::Tensor Wrap(const float* data, at::IntArrayRef shape) {
  return at::from_blob(const_cast<float*>(data), shape, at::kFloat);
}

at::Tensor Wrap(ConstMatrixView matrix) { return Wrap(matrix.data(), {matrix.rows(), matrix.cols()}); }

Matrix CopyToMatrix(const at::Tensor& tensor) {
  Matrix matrix(tensor.size(0), tensor.size(1));
  Wrap(matrix).copy_(tensor);
  return matrix;
}

at::Tensor Activate(at::Tensor linear, v1::Activation activation) {
  // In place: the derivatives are taken from the output.
  switch (activation) {
    case v1::LINEAR:
      return linear;
    case v1::RELU:
      return linear.relu_();
    case v1::TANH:
      return linear.tanh_();
    case v1::SIGMOID:
      return linear.sigmoid_();
  }
  return linear;
}

absl::Status CheckShape(const char* what, ConstMatrixView matrix, int64_t rows, int64_t cols) {
  if (matrix.rows() != rows || matrix.cols() != cols) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": expected ", rows, " x ", cols, ", found ", matrix.rows(), " x ", matrix.cols()));
  }
  return absl::OkStatus();
}

absl::Status CheckLayerIndices(absl::Span<const int64_t> indices, int64_t layers) {
  for (const int64_t index : indices) {
    if (index < 0 || index >= layers) {
      return absl::InvalidArgumentError(absl::StrCat("layer: expected 0 to ", layers - 1, ", found ", index));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Layer>> ReadLayers(const DenseStack::Options& options) {
  if (options.input_width < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.field, " input width: expected at least 1, found ", options.input_width));
  }
  if (options.layers.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(options.field, ".layers: expected at least one, found none"));
  }
  std::vector<Layer> layers;
  absl::flat_hash_set<std::string> names;
  int64_t inputs = options.input_width;
  for (const v1::Layer& spec : options.layers) {
    const std::string field = absl::StrCat(options.field, ".layers[", layers.size(), "]");
    if (spec.name().empty() || !names.insert(spec.name()).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(field, ".name: expected a name of its own, found \"", spec.name(), "\""));
    }
    if (spec.units() < 1 || spec.units() > kMaxUnits) {
      return absl::InvalidArgumentError(
          absl::StrCat(field, ".units: expected 1 to ", kMaxUnits, ", found ", spec.units()));
    }
    layers.push_back({spec.name(), inputs, spec.units(), spec.activation()});
    inputs = spec.units();
  }
  return layers;
}

}  // namespace

struct DensePass::State {
  at::Tensor input;
  std::vector<at::Tensor> parameters;  // Weight and bias of each layer, leaves of the graph.
  std::vector<at::Tensor> outputs;     // Of each layer.
  bool served = false;
};

DensePass::DensePass() : state_(std::make_unique<State>()) {}
DensePass::DensePass(DensePass&& other) noexcept = default;
DensePass& DensePass::operator=(DensePass&& other) noexcept = default;
DensePass::~DensePass() = default;

ConstMatrixView DensePass::output() const {
  const at::Tensor& last = state_->outputs.back();
  return {last.data_ptr<float>(), last.size(0), last.size(1)};
}

// All parameters lie in one tensor, so that stashing them is one copy and an optimiser step a few long loops instead of
// a few short ones for each layer.
struct DenseStack::State {
  std::vector<Layer> layers;
  bool input_gradient = false;
  at::Tensor flat;  // [parameters]
  std::unique_ptr<torch::optim::Adam> optimizer;
  bool has_gradient = false;

  int64_t input_width() const { return layers.front().inputs; }
  int64_t output_width() const { return layers.back().units; }

  // Weight and bias of each layer as views of `parameters`, which has the layout of `flat`.
  std::vector<at::Tensor> Split(const at::Tensor& parameters) const {
    std::vector<at::Tensor> views;
    views.reserve(2 * layers.size());
    int64_t start = 0;
    for (const Layer& layer : layers) {
      views.push_back(parameters.narrow(0, start, layer.units * layer.inputs).view({layer.units, layer.inputs}));
      start += layer.units * layer.inputs;
      views.push_back(parameters.narrow(0, start, layer.units));
      start += layer.units;
    }
    return views;
  }

  void Initialize(const Options& options) {
    int64_t size = 0;
    for (const Layer& layer : layers) {
      size += layer.units * (layer.inputs + 1);
    }
    flat = at::empty({size}, at::kFloat);
    const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(options.seed);
    const std::vector<at::Tensor> views = Split(flat);
    for (size_t i = 0; i < views.size(); ++i) {
      const double bound = 1 / std::sqrt(static_cast<double>(layers[i / 2].inputs));
      views[i].uniform_(-bound, bound, generator);
    }
    optimizer = std::make_unique<torch::optim::Adam>(std::vector<at::Tensor>{flat},
                                                     torch::optim::AdamOptions(options.adam.learning_rate)
                                                         .betas(std::make_tuple(options.adam.beta1, options.adam.beta2))
                                                         .eps(options.adam.epsilon)
                                                         .weight_decay(options.adam.l2));
  }

  // Output of every layer.
  std::vector<at::Tensor> Apply(at::Tensor values, const std::vector<at::Tensor>& parameters) const {
    std::vector<at::Tensor> outputs;
    outputs.reserve(layers.size());
    for (size_t l = 0; l < layers.size(); ++l) {
      values = Activate(at::linear(values, parameters[2 * l], parameters[2 * l + 1]), layers[l].activation);
      outputs.push_back(values);
    }
    return outputs;
  }
};

absl::StatusOr<std::unique_ptr<DenseStack>> DenseStack::Create(const Options& options) {
  absl::StatusOr<std::vector<Layer>> layers = ReadLayers(options);
  if (!layers.ok()) {
    return layers.status();
  }
  auto state = std::make_unique<State>();
  state->layers = *std::move(layers);
  state->input_gradient = options.input_gradient;
  using Result = absl::StatusOr<std::unique_ptr<DenseStack>>;
  return CatchTorchErrors<Result>("creating dense layers", [&]() -> Result {
    const at::NoGradGuard no_grad;
    state->Initialize(options);
    return absl::WrapUnique(new DenseStack(std::move(state)));
  });
}

DenseStack::DenseStack(std::unique_ptr<State> state) : state_(std::move(state)) {}
DenseStack::~DenseStack() = default;

absl::StatusOr<DensePass> DenseStack::Forward(ConstMatrixView input) const {
  if (absl::Status status = CheckShape("input", input, std::max<int64_t>(input.rows(), 1), state_->input_width());
      !status.ok()) {
    return status;
  }
  return CatchTorchErrors<absl::StatusOr<DensePass>>("forward", [&]() -> absl::StatusOr<DensePass> {
    const at::AutoGradMode grad(true);
    DensePass pass;
    pass.state_->input = Wrap(input).requires_grad_(state_->input_gradient);
    pass.state_->parameters = state_->Split(state_->flat.clone());
    for (at::Tensor& parameter : pass.state_->parameters) {
      parameter.requires_grad_();
    }
    pass.state_->outputs = state_->Apply(pass.state_->input, pass.state_->parameters);
    return pass;
  });
}

absl::StatusOr<Matrix> DenseStack::Predict(ConstMatrixView input) const {
  if (absl::Status status = CheckShape("input", input, std::max<int64_t>(input.rows(), 1), state_->input_width());
      !status.ok()) {
    return status;
  }
  return CatchTorchErrors<absl::StatusOr<Matrix>>("predict", [&]() -> absl::StatusOr<Matrix> {
    const at::NoGradGuard no_grad;
    return CopyToMatrix(state_->Apply(Wrap(input), state_->Split(state_->flat)).back());
  });
}

absl::StatusOr<DenseGradients> DenseStack::Backward(DensePass& pass, ConstMatrixView output_gradient,
                                                    absl::Span<const int64_t> layers) {
  if (pass.state_->served) {
    return absl::FailedPreconditionError("backward: expected a pass that has not been back-propagated yet");
  }
  const int64_t batch = pass.state_->input.size(0);
  if (absl::Status status = CheckShape("output gradient", output_gradient, batch, state_->output_width());
      !status.ok()) {
    return status;
  }
  if (absl::Status status = CheckLayerIndices(layers, static_cast<int64_t>(state_->layers.size())); !status.ok()) {
    return status;
  }
  using Result = absl::StatusOr<DenseGradients>;
  return CatchTorchErrors<Result>("backward", [&]() -> Result {
    std::vector<at::Tensor> targets = pass.state_->parameters;
    for (const int64_t layer : layers) {
      targets.push_back(pass.state_->outputs[layer]);
    }
    if (state_->input_gradient) {
      targets.push_back(pass.state_->input);
    }
    pass.state_->served = true;
    const std::vector<at::Tensor> gradients =
        torch::autograd::grad({pass.state_->outputs.back()}, targets, {Wrap(output_gradient)});

    const at::NoGradGuard no_grad;
    const size_t parameters = pass.state_->parameters.size();
    std::vector<at::Tensor> flattened;
    for (size_t i = 0; i < parameters; ++i) {
      flattened.push_back(gradients[i].reshape({-1}));
    }
    // Dividing the sums once is exact for a power of two, and leaves the gradients of the activations untouched.
    state_->flat.mutable_grad() = at::cat(flattened).div_(static_cast<double>(batch));
    state_->has_gradient = true;

    DenseGradients result;
    for (size_t i = 0; i < layers.size(); ++i) {
      result.outputs.push_back(CopyToMatrix(gradients[parameters + i]));
    }
    if (state_->input_gradient) {
      result.input = CopyToMatrix(gradients.back());
    }
    return result;
  });
}

absl::StatusOr<std::vector<std::vector<float>>> DenseStack::BackwardRow(const DensePass& pass, int64_t row,
                                                                        absl::Span<const float> output_gradient,
                                                                        absl::Span<const int64_t> layers) const {
  const int64_t batch = pass.state_->input.size(0);
  if (row < 0 || row >= batch) {
    return absl::InvalidArgumentError(absl::StrCat("row: expected 0 to ", batch - 1, ", found ", row));
  }
  const ConstMatrixView gradient(output_gradient.data(), 1, static_cast<int64_t>(output_gradient.size()));
  if (absl::Status status = CheckShape("output gradient", gradient, 1, state_->output_width()); !status.ok()) {
    return status;
  }
  if (absl::Status status = CheckLayerIndices(layers, static_cast<int64_t>(state_->layers.size())); !status.ok()) {
    return status;
  }
  using Result = absl::StatusOr<std::vector<std::vector<float>>>;
  return CatchTorchErrors<Result>("backward of a row", [&]() -> Result {
    // The row's forward computation again costs less than keeping the batch's graph for a second use.
    const at::AutoGradMode grad(true);
    const std::vector<at::Tensor> outputs =
        state_->Apply(pass.state_->input.detach().narrow(0, row, 1), pass.state_->parameters);
    std::vector<at::Tensor> targets;
    for (const int64_t layer : layers) {
      targets.push_back(outputs[layer]);
    }
    std::vector<std::vector<float>> result;
    if (targets.empty()) {
      return result;
    }
    for (const at::Tensor& found : torch::autograd::grad({outputs.back()}, targets, {Wrap(gradient)})) {
      const at::Tensor values = found.contiguous();
      result.emplace_back(values.data_ptr<float>(), values.data_ptr<float>() + values.numel());
    }
    return result;
  });
}

absl::Status DenseStack::Update() {
  if (!state_->has_gradient) {
    return absl::FailedPreconditionError("update: expected a backward since the last update, found none");
  }
  return CatchTorchErrors<absl::Status>("update", [&]() -> absl::Status {
    state_->optimizer->step();
    state_->has_gradient = false;
    return absl::OkStatus();
  });
}

std::vector<ParameterView> DenseStack::parameters(const std::string& prefix) {
  std::vector<ParameterView> views;
  float* start = state_->flat.data_ptr<float>();
  for (const Layer& layer : state_->layers) {
    const size_t weights = static_cast<size_t>(layer.units * layer.inputs);
    const size_t biases = static_cast<size_t>(layer.units);
    views.push_back({absl::StrCat(prefix, layer.name, ".weight"), absl::MakeSpan(start, weights)});
    views.push_back({absl::StrCat(prefix, layer.name, ".bias"), absl::MakeSpan(start + weights, biases)});
    start += weights + biases;
  }
  return views;
}

}  // namespace splitveil
