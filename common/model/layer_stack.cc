#include "common/model/layer_stack.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <torch/csrc/autograd/autograd.h>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"

#include "common/model/layer_network.h"
#include "common/model/parameter_optimizer.h"
#include "common/model/torch_boundary.h"

namespace splitveil {
namespace {

absl::Status CheckShape(const char* what, ConstMatrixView matrix, int64_t rows, int64_t cols) {
  if (matrix.rows() != rows || matrix.cols() != cols) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": expected ", rows, " x ", cols, ", found ", matrix.rows(), " x ", matrix.cols()));
  }
  return absl::OkStatus();
}

}  // namespace

// The graph of each layer ends at its own input, so that gradients can be taken layer by layer.
struct LayerPass::State {
  at::Tensor input;
  at::Tensor side;                                    // Undefined without a side input.
  std::shared_ptr<const StackParameters> parameters;  // Those it was computed with.
  std::vector<at::Tensor> inputs;                     // Of each layer.
  std::vector<at::Tensor> outputs;                    // As OutputNames.
  bool served = false;
};

LayerPass::LayerPass() : state_(std::make_unique<State>()) {}
LayerPass::LayerPass(LayerPass&& other) noexcept = default;
LayerPass& LayerPass::operator=(LayerPass&& other) noexcept = default;
LayerPass::~LayerPass() = default;

ConstMatrixView LayerPass::output() const { return ViewOf(state_->outputs.back()); }

struct LayerStack::State {
  explicit State(LayerNetwork computation) : network(std::move(computation)) {}

  LayerNetwork network;
  bool input_gradient = false;
  bool side_gradient = false;
  std::shared_ptr<StackParameters> parameters;
  std::optional<ParameterOptimizer> optimizer;
  bool gradients_in_update = false;
  // What is left to do of a Backward: a layer's output and the gradient there.
  struct LayerEnd {
    size_t layer = 0;
    at::Tensor output, gradient;
    std::shared_ptr<const StackParameters> parameters;
  };
  std::vector<LayerEnd> ends;
  // Of the Backwards since the last step: sums over their rows, as StackParameters::leaves; empty before the first.
  std::vector<at::Tensor> gradients;
  int64_t gradient_rows = 0;  // Their rows.

  void Initialize(const Options& options) {
    const std::vector<PlannedLayer>& layers = network.layers();
    const int64_t size = ParameterCount(layers);
    parameters = std::make_shared<StackParameters>(at::empty({size}, at::kFloat), layers);
    const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(options.seed);
    for (size_t i = 0; i < parameters->leaves.size(); ++i) {
      const double bound = 1 / std::sqrt(static_cast<double>(layers[i / 2].fan_in));
      parameters->leaves[i].uniform_(-bound, bound, generator);
    }
    optimizer.emplace(options.optimizer, static_cast<size_t>(size));
  }

  // Makes the parameters this object's alone: passes under way keep theirs.
  void Unshare() {
    if (parameters.use_count() > 1) {
      parameters = std::make_shared<StackParameters>(parameters->flat.clone(), network.layers());
    }
  }

  absl::Status CheckInputs(ConstMatrixView input, ConstMatrixView side) const {
    const int64_t rows = std::max<int64_t>(input.rows(), 1);
    absl::Status status = CheckShape("input", input, rows, network.chain().input_width);
    if (network.has_side()) {
      status.Update(CheckShape("side input", side, rows, network.chain().side_width));
    }
    return status;
  }

  absl::Status CheckBackward(ConstMatrixView output_gradient, int64_t rows, absl::Span<const int64_t> outputs) const {
    for (const int64_t output : outputs) {
      if (output < 0 || output >= network.outputs()) {
        return absl::InvalidArgumentError(
            absl::StrCat("layer: expected 0 to ", network.outputs() - 1, ", found ", output));
      }
    }
    return CheckShape("output gradient", output_gradient, rows, network.layers().back().width());
  }

  // Back-propagates `gradient` at the output of layer `l`, which is `output` of the pass. `found`: gradients by output;
  // those of the layer that are `wanted` are filled in. Returns that at the layer's input, undefined where nobody asks.
  at::Tensor BackwardLayer(size_t l, size_t output, const at::Tensor& gradient, const LayerPass::State& pass,
                           const std::vector<bool>& wanted, std::vector<at::Tensor>& found, at::Tensor& side) {
    const bool to_input = l > 0 || input_gradient, to_side = side_gradient && network.reads_side(l);
    const bool to_unpooled = network.layers()[l].is_pooled() && wanted[output - 1];
    std::vector<at::Tensor> targets;
    if (to_input) {
      targets.push_back(pass.inputs[l]);
    }
    if (to_side) {
      targets.push_back(pass.side);
    }
    if (to_unpooled) {
      targets.push_back(pass.outputs[output - 1]);
    }
    if (gradients_in_update) {
      ends.push_back({l, pass.outputs[output], gradient, pass.parameters});
    } else {
      targets.insert(targets.end(), {pass.parameters->leaves[2 * l], pass.parameters->leaves[2 * l + 1]});
    }
    if (targets.empty()) {
      return {};
    }
    std::vector<at::Tensor> results = torch::autograd::grad({pass.outputs[output]}, targets, {gradient},
                                                            /*retain_graph=*/gradients_in_update);
    size_t next = 0;
    at::Tensor at_input = to_input ? results[next++] : at::Tensor();
    if (to_side) {
      side = results[next++];
    }
    if (to_unpooled) {
      found[output - 1] = results[next++];
    }
    if (!gradients_in_update) {
      Accumulate(l, results[next], results[next + 1]);
    }
    return at_input;
  }

  void Accumulate(size_t l, const at::Tensor& weight, const at::Tensor& bias) {
    gradients.resize(2 * network.layers().size());
    for (const auto& [i, part] : {std::pair(2 * l, &weight), std::pair(2 * l + 1, &bias)}) {
      if (gradients[i].defined()) {
        gradients[i].add_(*part);
      } else {
        gradients[i] = part->contiguous();
      }
    }
  }

  // Does what Backward has left for Update.
  void FinishBackward() {
    for (const LayerEnd& end : ends) {
      const at::Tensor& weight = end.parameters->leaves[2 * end.layer];
      const at::Tensor& bias = end.parameters->leaves[2 * end.layer + 1];
      const std::vector<at::Tensor> results = torch::autograd::grad({end.output}, {weight, bias}, {end.gradient});
      Accumulate(end.layer, results[0], results[1]);
    }
    ends.clear();
  }

  // Sum of the squares of the mean gradient.
  double SquaredNorm() const {
    double sum = 0;
    for (const at::Tensor& gradient : gradients) {
      const auto norm = at::linalg_vector_norm(gradient, 2, at::nullopt, false, at::kDouble).item<double>();
      sum += norm * norm;
    }
    return sum / (static_cast<double>(gradient_rows) * static_cast<double>(gradient_rows));
  }

  void Step(double scale) {
    Unshare();
    std::vector<absl::Span<const float>> pieces;
    for (const at::Tensor& gradient : gradients) {
      pieces.emplace_back(gradient.data_ptr<float>(), static_cast<size_t>(gradient.numel()));
    }
    optimizer->Step(pieces, scale / static_cast<double>(gradient_rows), parameters->flat.data_ptr<float>());
    Forget();
  }

  void Forget() {
    ends.clear();
    gradients.clear();
    gradient_rows = 0;
  }

  // The pieces of `values`, which has the layout of the parameters.
  template <typename Name>
  std::vector<ParameterView> Split(float* values, const Name& name) const {
    std::vector<ParameterView> views;
    for (const PlannedLayer& layer : network.layers()) {
      const auto weights = static_cast<size_t>(layer.units * layer.fan_in);
      const auto biases = static_cast<size_t>(layer.units);
      views.push_back({name(layer.name + ".weight"), absl::MakeSpan(values, weights)});
      views.push_back({name(layer.name + ".bias"), absl::MakeSpan(values + weights, biases)});
      values += weights + biases;
    }
    return views;
  }
};

absl::StatusOr<std::unique_ptr<LayerStack>> LayerStack::Create(const Options& options) {
  absl::StatusOr<std::vector<PlannedLayer>> layers = PlanLayers(options.chain);
  if (!layers.ok()) {
    return layers.status();
  }
  auto state = std::make_unique<State>(LayerNetwork(options.chain, *std::move(layers)));
  state->input_gradient = options.input_gradient;
  state->side_gradient = options.side_gradient;
  state->gradients_in_update = options.gradients_in_update;
  using Result = absl::StatusOr<std::unique_ptr<LayerStack>>;
  return CatchTorchErrors<Result>("creating layers", [&]() -> Result {
    const at::NoGradGuard no_grad;
    state->Initialize(options);
    return absl::WrapUnique(new LayerStack(std::move(state)));
  });
}

LayerStack::LayerStack(std::unique_ptr<State> state) : state_(std::move(state)) {}
LayerStack::~LayerStack() = default;

int64_t LayerStack::output_width() const { return state_->network.layers().back().width(); }

const std::vector<PlannedLayer>& LayerStack::plan() const { return state_->network.layers(); }

int64_t LayerStack::side_layer() const { return state_->network.has_side() ? state_->network.chain().side_layer : -1; }

absl::StatusOr<LayerPass> LayerStack::Forward(ConstMatrixView input, ConstMatrixView side) const {
  if (absl::Status status = state_->CheckInputs(input, side); !status.ok()) {
    return status;
  }
  return CatchTorchErrors<absl::StatusOr<LayerPass>>("forward", [&]() -> absl::StatusOr<LayerPass> {
    const at::AutoGradMode grad(true);
    LayerPass pass;
    pass.state_->input = WrapMatrix(input).requires_grad_(state_->input_gradient);
    if (state_->network.has_side()) {
      pass.state_->side = WrapMatrix(side).requires_grad_(state_->side_gradient);
    }
    pass.state_->parameters = state_->parameters;
    at::Tensor values = pass.state_->input;
    for (size_t l = 0; l < state_->network.layers().size(); ++l) {
      pass.state_->inputs.push_back(values);
      state_->network.ApplyLayer(l, values, pass.state_->side, state_->parameters->leaves, pass.state_->outputs);
      values = pass.state_->outputs.back().detach().requires_grad_();
    }
    return pass;
  });
}

absl::StatusOr<Matrix> LayerStack::Predict(ConstMatrixView input, ConstMatrixView side) const {
  if (absl::Status status = state_->CheckInputs(input, side); !status.ok()) {
    return status;
  }
  return CatchTorchErrors<absl::StatusOr<Matrix>>("predict", [&]() -> absl::StatusOr<Matrix> {
    const at::NoGradGuard no_grad;
    const at::Tensor wrapped_side = state_->network.has_side() ? WrapMatrix(side) : at::Tensor();
    return CopyToMatrix(state_->network.Apply(WrapMatrix(input), wrapped_side, state_->parameters->leaves).back());
  });
}

absl::StatusOr<StackGradients> LayerStack::Backward(LayerPass& pass, ConstMatrixView output_gradient,
                                                    absl::Span<const int64_t> outputs) {
  if (pass.state_->served) {
    return absl::FailedPreconditionError("backward: expected a pass that has not been back-propagated yet");
  }
  const int64_t batch = pass.state_->input.size(0);
  if (absl::Status status = state_->CheckBackward(output_gradient, batch, outputs); !status.ok()) {
    return status;
  }
  using Result = absl::StatusOr<StackGradients>;
  return CatchTorchErrors<Result>("backward", [&]() -> Result {
    const LayerPass::State& computed = *pass.state_;
    pass.state_->served = true;
    std::vector<bool> wanted(computed.outputs.size());
    for (const int64_t output : outputs) {
      wanted[output] = true;
    }
    const auto found = std::make_shared<std::vector<at::Tensor>>(computed.outputs.size());
    at::Tensor side;
    at::Tensor gradient = WrapMatrix(output_gradient).view(computed.outputs.back().sizes());
    size_t output = computed.outputs.size();
    for (size_t l = state_->network.layers().size(); l-- > 0;) {
      (*found)[--output] = gradient;
      gradient = state_->BackwardLayer(l, output, gradient, computed, wanted, *found, side);
      output -= state_->network.layers()[l].is_pooled() ? 1 : 0;
    }
    state_->gradient_rows += batch;

    StackGradients result;
    const auto keep = [&](const at::Tensor& tensor) { return ViewOf(found->emplace_back(tensor.contiguous())); };
    for (const int64_t index : outputs) {
      result.outputs.push_back(keep((*found)[index]));
    }
    if (state_->input_gradient) {
      result.input = keep(gradient);
    }
    if (state_->side_gradient) {
      result.side = keep(side);
    }
    result.memory = found;
    return result;
  });
}

absl::StatusOr<std::vector<std::vector<float>>> LayerStack::BackwardRow(const LayerPass& pass, int64_t row,
                                                                        absl::Span<const float> output_gradient,
                                                                        absl::Span<const int64_t> outputs) const {
  const int64_t batch = pass.state_->input.size(0);
  if (row < 0 || row >= batch) {
    return absl::InvalidArgumentError(absl::StrCat("row: expected 0 to ", batch - 1, ", found ", row));
  }
  const ConstMatrixView gradient(output_gradient.data(), 1, static_cast<int64_t>(output_gradient.size()));
  if (absl::Status status = state_->CheckBackward(gradient, 1, outputs); !status.ok()) {
    return status;
  }
  using Result = absl::StatusOr<std::vector<std::vector<float>>>;
  return CatchTorchErrors<Result>("backward of a row", [&]() -> Result {
    // The row's forward computation again costs less than keeping the batch's graph for a second use.
    const at::Tensor& side = pass.state_->side;
    std::vector<std::vector<float>> result;
    for (const at::Tensor& found : state_->network.GradientsAt(
             outputs, WrapMatrix(gradient), pass.state_->input.detach().narrow(0, row, 1),
             side.defined() ? side.detach().narrow(0, row, 1) : side, pass.state_->parameters->leaves)) {
      result.emplace_back(found.data_ptr<float>(), found.data_ptr<float>() + found.numel());
    }
    return result;
  });
}

absl::Status LayerStack::Update(absl::Span<LayerStack* const> stacks) {
  for (const LayerStack* stack : stacks) {
    if (stack->state_->gradient_rows == 0) {
      return absl::FailedPreconditionError("update: expected a backward since the last update, found none");
    }
  }
  return CatchTorchErrors<absl::Status>("update", [&]() -> absl::Status {
    for (LayerStack* stack : stacks) {
      stack->state_->FinishBackward();
    }
    const double clip_norm = stacks.front()->state_->optimizer->options().clip_norm;
    double scale = 1;
    if (clip_norm > 0) {
      double squared_norm = 0;
      for (const LayerStack* stack : stacks) {
        squared_norm += stack->state_->SquaredNorm();
      }
      if (!std::isfinite(squared_norm)) {
        return absl::InternalError("norm of the gradients: expected a finite number: the training has diverged");
      }
      scale = std::min(1.0, clip_norm / std::sqrt(squared_norm));
    }
    for (LayerStack* stack : stacks) {
      stack->state_->Step(scale);
    }
    return absl::OkStatus();
  });
}

std::vector<ParameterView> LayerStack::parameters(const std::string& prefix) {
  state_->Unshare();
  return state_->Split(state_->parameters->flat.data_ptr<float>(),
                       [&](const std::string& parameter) { return prefix + parameter; });
}

std::vector<ParameterView> LayerStack::moments(const std::string& prefix) {
  std::vector<ParameterView> views;
  for (int m = 0; m < state_->optimizer->options().moments(); ++m) {
    for (ParameterView& view : state_->Split(state_->optimizer->moment(m).data(), [&](const std::string& parameter) {
           return MomentName(prefix + parameter, m);
         })) {
      views.push_back(std::move(view));
    }
  }
  return views;
}

void LayerStack::Forget() { state_->Forget(); }

int64_t LayerStack::steps() const { return state_->optimizer->steps(); }

void LayerStack::set_steps(int64_t steps) { state_->optimizer->set_steps(steps); }

}  // namespace splitveil
