#include "common/model/layer_stack.h"

#include <ATen/ATen.h>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"

#include "common/model/layer_network.h"
#include "common/model/parameter_optimizer.h"
#include "common/model/torch_boundary.h"
#include "common/status/status_macros.h"

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

struct LayerPass::State {
  at::Tensor input;
  at::Tensor side;                                    // Undefined without a side input.
  std::shared_ptr<const StackParameters> parameters;  // Those it was computed with.
  std::vector<ComputedLayer> layers;
  bool served = false;
};

LayerPass::LayerPass() : state_(std::make_unique<State>()) {}
LayerPass::LayerPass(LayerPass&& other) noexcept = default;
LayerPass& LayerPass::operator=(LayerPass&& other) noexcept = default;
LayerPass::~LayerPass() = default;

ConstMatrixView LayerPass::output() const { return ViewOf(state_->layers.back().output); }

struct LayerStack::State {
  explicit State(LayerNetwork computation) : network(std::move(computation)) {}

  LayerNetwork network;
  bool input_gradient = false;
  bool side_gradient = false;
  std::shared_ptr<StackParameters> parameters;
  std::optional<StackParameters> average;
  std::optional<ParameterOptimizer> optimizer;
  bool gradients_in_update = false;
  // The part of a Backward that waits for Update: a layer's parameters, with the gradient before its activation
  // function.
  struct LayerEnd {
    size_t layer = 0;
    ComputedLayer computed;
    at::Tensor gradient;
    std::shared_ptr<const StackParameters> parameters;
  };
  std::vector<LayerEnd> ends;
  // Gradients of the Backwards since the last step: sums over their rows, as StackParameters::views; empty before the
  // first.
  std::vector<at::Tensor> gradients;
  int64_t gradient_rows = 0;  // Their rows.

  void Initialize(const Options& options) {
    const std::vector<PlannedLayer>& layers = network.layers();
    parameters =
        std::make_shared<StackParameters>(InitialParameters(layers, options.chain.initialization, options.seed));
    optimizer.emplace(options.optimizer, static_cast<size_t>(ParameterCount(layers)));
    if (options.optimizer.has_average()) {
      average.emplace(parameters->flat.clone(), layers);
    }
  }

  const StackParameters& For(ParameterUse use) const {
    return use == ParameterUse::kPrediction && average.has_value() ? *average : *parameters;
  }

  // Makes the parameters this object's alone: passes under way keep theirs.
  void Unshare() {
    if (parameters.use_count() > 1) {
      parameters = std::make_shared<StackParameters>(parameters->flat.clone(), network.layers());
    }
  }

  absl::Status CheckInputs(ConstMatrixView input, ConstMatrixView side) const {
    // So that an empty batch is refused.
    const int64_t rows = std::max<int64_t>(input.rows(), 1);
    absl::Status status = CheckShape("input", input, rows, network.chain().input_width);
    if (network.has_side()) {
      status.Update(CheckShape("side input", side, rows, network.chain().side_width));
    }
    return status;
  }

  WantedGradients Wanted(absl::Span<const int64_t> outputs) const {
    WantedGradients wanted{std::vector<bool>(static_cast<size_t>(network.outputs())), input_gradient, side_gradient};
    for (const int64_t output : outputs) {
      wanted.outputs[static_cast<size_t>(output)] = true;
    }
    return wanted;
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

  void Accumulate(const LayerEnd& end) {
    gradients.resize(2 * network.layers().size());
    network.AddAtParameters(end.layer, end.computed, end.gradient, end.parameters->views, gradients[2 * end.layer],
                            gradients[2 * end.layer + 1]);
  }

  // Adds what `output_gradient` [batch, output_width] is at the parameters to `sums`, as StackParameters::views;
  // returns it at the input, empty unless wanted.
  Matrix AddObjective(const LayerPass::State& computed, ConstMatrixView output_gradient,
                      std::vector<at::Tensor>& sums) const {
    sums.resize(2 * network.layers().size());
    WantedGradients wanted = Wanted({});
    wanted.side = false;
    const std::vector<at::Tensor>& views = computed.parameters->views;
    const NetworkGradients found = network.Backward(
        computed.layers, WrapMatrix(output_gradient), wanted, views, [&](size_t l, const at::Tensor& gradient) {
          network.AddAtParameters(l, computed.layers[l], gradient, views, sums[2 * l], sums[2 * l + 1]);
        });
    return found.input.defined() ? CopyToMatrix(found.input) : Matrix();
  }

  // Does the part of Backward that waited for Update.
  void FinishBackward() {
    for (const LayerEnd& end : ends) {
      Accumulate(end);
    }
    ends.clear();
  }

  // Sum of the squares of the mean gradient, in double: with many parameters a float sum would lose the small ones.
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
    // Of the step that is about to be taken: optimizer->Step counts it.
    const double average_rate = optimizer->options().AverageRate(optimizer->steps());
    std::vector<absl::Span<const float>> pieces;
    for (const at::Tensor& gradient : gradients) {
      pieces.emplace_back(gradient.data_ptr<float>(), static_cast<size_t>(gradient.numel()));
    }
    optimizer->Step(pieces, scale / static_cast<double>(gradient_rows), parameters->flat.data_ptr<float>());
    if (average.has_value()) {
      average->flat.lerp_(parameters->flat, average_rate);
    }
    Forget();
  }

  void Forget() {
    // Also unfinished Backwards, whose pass may no longer exist.
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
  SPLITVEIL_ASSIGN_OR_RETURN(std::vector<PlannedLayer> layers, PlanLayers(options.chain));
  auto state = std::make_unique<State>(LayerNetwork(options.chain, std::move(layers)));
  state->input_gradient = options.input_gradient;
  state->side_gradient = options.side_gradient;
  state->gradients_in_update = options.gradients_in_update;
  using Result = absl::StatusOr<std::unique_ptr<LayerStack>>;
  return CatchTorchErrors<Result>("creating layers", [&]() -> Result {
    const c10::InferenceMode no_autograd;
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
  SPLITVEIL_RETURN_IF_ERROR(state_->CheckInputs(input, side));
  return CatchTorchErrors<absl::StatusOr<LayerPass>>("forward", [&]() -> absl::StatusOr<LayerPass> {
    const c10::InferenceMode no_autograd;
    LayerPass pass;
    LayerPass::State& computing = *pass.state_;
    computing.input = WrapMatrix(input);
    if (state_->network.has_side()) {
      computing.side = WrapMatrix(side);
    }
    // Shared until the next update, which makes a copy if passes are still under way (Unshare).
    computing.parameters = state_->parameters;
    computing.layers = state_->network.ComputeAll(computing.input, computing.side, computing.parameters->views);
    return pass;
  });
}

absl::StatusOr<Matrix> LayerStack::Predict(ConstMatrixView input, ConstMatrixView side) const {
  SPLITVEIL_RETURN_IF_ERROR(state_->CheckInputs(input, side));
  return CatchTorchErrors<absl::StatusOr<Matrix>>("predict", [&]() -> absl::StatusOr<Matrix> {
    const c10::InferenceMode no_autograd;
    // Layer by layer, so that no layer's output outlives the next one.
    const at::Tensor wrapped_side = state_->network.has_side() ? WrapMatrix(side) : at::Tensor();
    at::Tensor values = WrapMatrix(input);  // Of the layer at hand alone.
    for (size_t l = 0; l < state_->network.layers().size(); ++l) {
      values = state_->network.Compute(l, values, wrapped_side, state_->For(ParameterUse::kPrediction).views).output;
    }
    return CopyToMatrix(values);
  });
}

absl::StatusOr<StackGradients> LayerStack::Backward(LayerPass& pass, ConstMatrixView output_gradient,
                                                    absl::Span<const int64_t> outputs) {
  if (pass.state_->served) {
    return absl::FailedPreconditionError("backward: expected a pass that has not been back-propagated yet");
  }
  const int64_t batch = pass.state_->input.size(0);
  SPLITVEIL_RETURN_IF_ERROR(state_->CheckBackward(output_gradient, batch, outputs));
  using Result = absl::StatusOr<StackGradients>;
  return CatchTorchErrors<Result>("backward", [&]() -> Result {
    const c10::InferenceMode no_autograd;
    LayerPass::State& computed = *pass.state_;
    // A second Backward would count the gradients of this pass twice.
    computed.served = true;
    const NetworkGradients found =
        state_->network.Backward(computed.layers, WrapMatrix(output_gradient), state_->Wanted(outputs),
                                 computed.parameters->views, [&](size_t l, const at::Tensor& gradient) {
                                   State::LayerEnd end{l, computed.layers[l], gradient, computed.parameters};
                                   if (state_->gradients_in_update) {
                                     state_->ends.push_back(std::move(end));
                                   } else {
                                     state_->Accumulate(end);
                                   }
                                 });
    state_->gradient_rows += batch;

    StackGradients result;
    // The views stay valid as long as the result does, even after the pass.
    const auto memory = std::make_shared<std::vector<at::Tensor>>();
    const auto keep = [&](const at::Tensor& tensor) { return ViewOf(memory->emplace_back(tensor.contiguous())); };
    for (const int64_t index : outputs) {
      result.outputs.push_back(keep(found.outputs[index]));
    }
    if (found.input.defined()) {
      result.input = keep(found.input);
    }
    if (found.side.defined()) {
      result.side = keep(found.side);
    }
    result.memory = memory;
    return result;
  });
}

absl::StatusOr<Matrix> LayerStack::InputGradient(const LayerPass& pass, ConstMatrixView output_gradient) const {
  SPLITVEIL_RETURN_IF_ERROR(state_->CheckBackward(output_gradient, pass.state_->input.size(0), {}));
  return CatchTorchErrors<absl::StatusOr<Matrix>>("gradient at the input", [&]() -> absl::StatusOr<Matrix> {
    const c10::InferenceMode no_autograd;
    WantedGradients wanted = state_->Wanted({});
    wanted.input = true;
    wanted.side = false;
    return CopyToMatrix(
        state_->network
            .Backward(pass.state_->layers, WrapMatrix(output_gradient), wanted, pass.state_->parameters->views, nullptr)
            .input);
  });
}

absl::StatusOr<LayerStack::ObjectiveGradient> LayerStack::GradientOf(const LayerPass& pass,
                                                                     ConstMatrixView output_gradient) const {
  SPLITVEIL_RETURN_IF_ERROR(state_->CheckBackward(output_gradient, pass.state_->input.size(0), {}));
  using Result = absl::StatusOr<ObjectiveGradient>;
  return CatchTorchErrors<Result>("gradient at the parameters", [&]() -> Result {
    const c10::InferenceMode no_autograd;
    ObjectiveGradient result;
    std::vector<at::Tensor> sums;
    result.input = state_->AddObjective(*pass.state_, output_gradient, sums);
    for (const at::Tensor& sum : sums) {
      const at::Tensor flat = sum.contiguous();
      result.parameters.insert(result.parameters.end(), flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel());
    }
    return result;
  });
}

absl::StatusOr<Matrix> LayerStack::AddGradient(const LayerPass& pass, ConstMatrixView output_gradient) {
  SPLITVEIL_RETURN_IF_ERROR(state_->CheckBackward(output_gradient, pass.state_->input.size(0), {}));
  if (!pass.state_->served) {
    return absl::FailedPreconditionError("added gradient: expected a pass that has been back-propagated");
  }
  return CatchTorchErrors<absl::StatusOr<Matrix>>("added gradient", [&]() -> absl::StatusOr<Matrix> {
    const c10::InferenceMode no_autograd;
    // What waits for Update comes first, so that sums are added in the same order in every run.
    state_->FinishBackward();
    return state_->AddObjective(*pass.state_, output_gradient, state_->gradients);
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
  SPLITVEIL_RETURN_IF_ERROR(state_->CheckBackward(gradient, 1, outputs));
  using Result = absl::StatusOr<std::vector<std::vector<float>>>;
  return CatchTorchErrors<Result>("backward of a row", [&]() -> Result {
    const c10::InferenceMode no_autograd;
    // The row's forward computation again costs less than keeping the batch's layers for a second use.
    const LayerPass::State& whole = *pass.state_;
    const std::vector<at::Tensor>& views = whole.parameters->views;
    const auto row_of = [row](const at::Tensor& all) { return all.defined() ? all.narrow(0, row, 1) : all; };
    WantedGradients wanted = state_->Wanted(outputs);
    wanted.input = wanted.side = false;
    const NetworkGradients found =
        state_->network.Backward(state_->network.ComputeAll(row_of(whole.input), row_of(whole.side), views),
                                 WrapMatrix(gradient), wanted, views, nullptr);
    std::vector<std::vector<float>> result;
    for (const int64_t output : outputs) {
      const at::Tensor there = found.outputs[output].contiguous();
      result.emplace_back(there.data_ptr<float>(), there.data_ptr<float>() + there.numel());
    }
    return result;
  });
}

absl::Status LayerStack::ShareGradients(const std::function<absl::Status(absl::Span<float>)>& sum, int64_t rows) {
  return CatchTorchErrors<absl::Status>("gradients of several processes", [&]() -> absl::Status {
    const c10::InferenceMode no_autograd;
    state_->FinishBackward();
    StackParameters shared(at::zeros_like(state_->parameters->flat), state_->network.layers());
    for (size_t i = 0; i < state_->gradients.size(); ++i) {
      shared.views[i].copy_(state_->gradients[i]);
    }
    SPLITVEIL_RETURN_IF_ERROR(
        sum(absl::MakeSpan(shared.flat.data_ptr<float>(), static_cast<size_t>(shared.flat.numel()))));
    state_->gradients = std::move(shared.views);
    state_->gradient_rows = rows;
    return absl::OkStatus();
  });
}

absl::Status LayerStack::Update(absl::Span<LayerStack* const> stacks) {
  // All or none: stacks of one model take their steps together.
  for (const LayerStack* stack : stacks) {
    if (stack->state_->gradient_rows == 0) {
      return absl::FailedPreconditionError("update: expected a backward since the last update, found none");
    }
  }
  return CatchTorchErrors<absl::Status>("update", [&]() -> absl::Status {
    const c10::InferenceMode no_autograd;
    // Put off until here, so that the activations' gradients reach the peer earlier.
    for (LayerStack* stack : stacks) {
      stack->state_->FinishBackward();
    }
    // One norm over all stacks: to the optimiser they are one model.
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

std::vector<ParameterView> LayerStack::parameters(const std::string& prefix, ParameterUse use) {
  // The caller may write through the views; passes in flight must keep what they were computed with.
  state_->Unshare();
  return state_->Split(state_->For(use).flat.data_ptr<float>(),
                       [&](const std::string& parameter) { return prefix + parameter; });
}

std::vector<ParameterView> LayerStack::optimizer_state(const std::string& prefix) {
  std::vector<std::vector<ParameterView>> parts;
  for (int m = 0; m < state_->optimizer->options().moments(); ++m) {
    parts.push_back(state_->Split(state_->optimizer->moment(m).data(),
                                  [&](const std::string& parameter) { return MomentName(prefix + parameter, m); }));
  }
  if (state_->average.has_value()) {
    parts.push_back(state_->Split(state_->average->flat.data_ptr<float>(),
                                  [&](const std::string& parameter) { return AverageName(prefix + parameter); }));
  }
  return Joined(std::move(parts));
}

void LayerStack::RestartAverage() {
  const c10::InferenceMode no_autograd;
  if (state_->average.has_value()) {
    state_->average->flat.copy_(state_->parameters->flat);
  }
}

void LayerStack::Forget() { state_->Forget(); }

int64_t LayerStack::steps() const { return state_->optimizer->steps(); }

void LayerStack::set_steps(int64_t steps) { state_->optimizer->set_steps(steps); }

}  // namespace splitveil
