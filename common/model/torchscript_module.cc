#include "common/model/torchscript_module.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <torch/csrc/autograd/variable.h>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "common/model/named_tensor.h"
#include "common/model/parameter_optimizer.h"
#include "common/model/torch_boundary.h"
#include "common/model/torchscript_file.h"
#include "common/model/torchscript_run.h"
#include "common/status/status_context.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

using torch::autograd::Edge;

int64_t Product(const std::vector<int64_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<int64_t>());
}

// Zero if the output does not depend on it.
at::Tensor OrZeros(const at::Tensor& gradient, const std::vector<int64_t>& sizes) {
  return gradient.defined() ? gradient : at::zeros(sizes);
}

std::vector<Edge> EdgesOf(const std::vector<at::Tensor>& tensors) {
  std::vector<Edge> edges;
  for (const at::Tensor& tensor : tensors) {
    edges.push_back(torch::autograd::impl::gradient_edge(tensor));
  }
  return edges;
}

}  // namespace

struct TorchScriptPass::State {
  TorchScriptRun run;
  std::vector<at::Tensor> parameters;  // Those it was computed with, in the order of TrainedParameters.
  // Of State; `sharing` is null where `parameters` are a copy.
  std::shared_ptr<const char> living, sharing;
  bool served = false;
};

TorchScriptPass::TorchScriptPass() : state_(std::make_unique<State>()) {}
TorchScriptPass::TorchScriptPass(TorchScriptPass&& other) noexcept = default;
TorchScriptPass& TorchScriptPass::operator=(TorchScriptPass&& other) noexcept = default;
TorchScriptPass::~TorchScriptPass() = default;

ConstMatrixView TorchScriptPass::output() const {
  return {state_->run.output.data_ptr<float>(), state_->run.output.size(0), state_->run.output.size(1)};
}

struct TorchScriptModule::State {
  Options options;
  torch::jit::Module module;
  std::shared_ptr<const LayeredForward> forward;
  std::vector<at::Tensor> parameters;
  std::vector<ParameterOptimizer> optimizers;  // One for each of `parameters`.
  std::vector<at::Tensor> averages;            // So, too; empty without.
  std::vector<std::string> layers;
  Draws draws;
  int64_t steps = 0;
  bool has_gradient = false;
  // ScriptToPredict, kept from one Predict to the next while neither the module nor that copy changes.
  std::optional<UnchangedModule> predicting;
  // Shared with every pass that lives, and with those whose parameters are the module's.
  std::shared_ptr<const char> living = std::make_shared<char>(), sharing = std::make_shared<char>();

  State(const Options& own_options, const torch::jit::Module& own_module)
      : options(own_options),
        module(own_module),
        forward(std::make_shared<LayeredForward>(module)),
        parameters(TrainedParameters(module)),
        draws{options.seed, 0} {
    for (const at::Tensor& parameter : parameters) {
      optimizers.emplace_back(options.optimizer, static_cast<size_t>(parameter.numel()));
      if (options.optimizer.has_average()) {
        averages.push_back(parameter.detach().clone());
      }
    }
  }

  // Before the parameters change: a pass that shares them keeps them as they are, and the module gets copies.
  void LeaveParametersToPasses() {
    predicting.reset();  // It has the parameters as they were.
    // With one batch in flight, as most runs have, nothing is copied.
    if (sharing.use_count() == 1) {
      return;
    }
    module = CopyModule(module, /*train=*/true);
    std::vector<at::Tensor> copies = TrainedParameters(module);
    for (size_t i = 0; i < copies.size(); ++i) {
      // The gradient belongs to the step under way, not to the tensor it was computed for.
      copies[i].mutable_grad() = parameters[i].grad();
    }
    parameters = std::move(copies);
    sharing = std::make_shared<char>();
  }

  absl::Status CheckInput(const TorchScriptInput& input) const {
    bool fits = input.numbers.size() == options.numbers.size() && !input.numbers.empty();
    const int64_t rows = fits ? input.numbers.front().rows() : 0;
    for (size_t i = 0; fits && i < input.numbers.size(); ++i) {
      fits = input.numbers[i].rows() == rows && input.numbers[i].cols() == Product(options.numbers[i].shape);
    }
    fits = fits && rows > 0 && static_cast<int64_t>(input.categories.size()) == rows * options.category_columns;
    return fits ? absl::OkStatus()
                : absl::InvalidArgumentError(absl::StrCat(options.field, ": expected a batch of the module's inputs"));
  }

  // Outputs in the pass of the layers `names`.
  absl::StatusOr<std::vector<const LayerOutput*>> FindLayers(const TorchScriptPass& pass,
                                                             absl::Span<const std::string> names) const {
    std::vector<const LayerOutput*> found;
    for (const std::string& name : names) {
      if (std::find(layers.begin(), layers.end(), name) == layers.end()) {
        return absl::InvalidArgumentError(
            absl::StrCat("layer: expected one of ", absl::StrJoin(layers, ", "), ", found \"", name, "\""));
      }
      const std::vector<LayerOutput>& outputs = pass.state_->run.layers;
      const auto output = std::find_if(outputs.begin(), outputs.end(), [&](const LayerOutput& candidate) {
        return candidate.layer == name && candidate.edge.is_valid();
      });
      // A module may skip a submodule in some batches: then there is no gradient to attack.
      if (output == outputs.end() || output->sizes.empty() || output->sizes[0] != pass.state_->run.output.size(0)) {
        return absl::InternalError(absl::StrCat("layer ", name, ": expected an output in every batch, found none"));
      }
      found.push_back(&*output);
    }
    return found;
  }

  // The factor by which OptimizerOptions::clip_norm scales the gradients.
  absl::StatusOr<double> ClippingScale() const {
    if (options.optimizer.clip_norm == 0) {
      return 1.0;
    }
    double squared_norm = 0;
    for (const at::Tensor& parameter : parameters) {
      if (parameter.grad().defined()) {
        // In double: the squares of a large layer would lose the small ones in float32.
        squared_norm += parameter.grad().pow(2).sum(at::kDouble).item<double>();
      }
    }
    if (!std::isfinite(squared_norm)) {
      return absl::InternalError("norm of the gradients: expected a finite number: the training has diverged");
    }
    return std::min(1.0, options.optimizer.clip_norm / std::sqrt(squared_norm));
  }

  std::vector<NamedTensor> Tensors(Part part) {
    std::vector<NamedTensor> tensors;
    for (const auto& named_state : StateOf(module)) {
      const at::Tensor& tensor = named_state.second;
      const auto trained =
          std::find_if(parameters.begin(), parameters.end(), [&](const auto& own) { return own.is_same(tensor); });
      const bool averaged = part == Part::kPrediction && trained != parameters.end() && !averages.empty();
      // A name has one tensor in the file: trained ones as numbers that any engine reads, the others byte by byte.
      tensors.push_back({options.name_prefix + named_state.first,
                         averaged ? averages[trained - parameters.begin()] : tensor,
                         /*is_exact=*/trained == parameters.end()});
    }
    for (size_t i = 0; part == Part::kTraining && i < parameters.size(); ++i) {
      // Tied parameters have several names in the state dict; the first one names their moments.
      const auto owner = std::find_if(tensors.begin(), tensors.end(),
                                      [&](const auto& named) { return named.tensor.is_same(parameters[i]); });
      const std::string name = owner->name;
      for (int m = 0; m < options.optimizer.moments(); ++m) {
        tensors.push_back(
            {MomentName(name, m), at::from_blob(optimizers[i].moment(m).data(), parameters[i].sizes(), at::kFloat)});
      }
      if (!averages.empty()) {
        tensors.push_back({AverageName(name), averages[i]});
      }
    }
    if (part == Part::kTraining) {
      std::vector<int64_t> steps;
      for (const ParameterOptimizer& optimizer : optimizers) {
        steps.push_back(optimizer.steps());
      }
      // Last: SetValues takes the counts from there.
      tensors.push_back({options.name_prefix + "parameter_steps", at::tensor(steps, at::kLong), /*is_exact=*/true});
    }
    return tensors;
  }

  absl::Status CheckOutputGradient(ConstMatrixView gradient, int64_t rows) const {
    if (gradient.rows() != rows || gradient.cols() != options.output_width) {
      return absl::InvalidArgumentError(absl::StrCat("output gradient: expected ", rows, " x ", options.output_width,
                                                     ", found ", gradient.rows(), " x ", gradient.cols()));
    }
    return absl::OkStatus();
  }
};

absl::StatusOr<int> CountTorchScriptArguments(const std::string& field, const std::string& path) {
  SPLITVEIL_ASSIGN_OR_RETURN(const torch::jit::Module module, LoadTorchScript(field, path));
  return CountRequiredArguments(module);
}

absl::StatusOr<std::unique_ptr<TorchScriptModule>> TorchScriptModule::Create(const Options& options) {
  SPLITVEIL_ASSIGN_OR_RETURN(torch::jit::Module module, LoadTorchScript(options.field, options.path));
  using Result = absl::StatusOr<std::unique_ptr<TorchScriptModule>>;
  return CatchTorchErrors<Result>("creating a TorchScript module", [&]() -> Result {
    absl::Status status =
        CheckArguments(module, static_cast<int>(options.numbers.size()) + (options.category_columns > 0 ? 1 : 0));
    auto state = std::make_unique<State>(options, module);
    if (status.ok()) {
      absl::StatusOr<std::vector<std::string>> layers = TryTorchScript(options, *state->forward, state->module);
      // Tried with made-up batches now, before the first message: a module that fails is the user's mistake, not the
      // peer's.
      status = layers.status();
      state->layers = layers.ok() ? *std::move(layers) : std::vector<std::string>();
    }
    SPLITVEIL_RETURN_IF_ERROR(Within(absl::StrCat(options.field, ": ", options.path), status));
    return absl::WrapUnique(new TorchScriptModule(std::move(state)));
  });
}

TorchScriptModule::TorchScriptModule(std::unique_ptr<State> state) : state_(std::move(state)) {}
TorchScriptModule::~TorchScriptModule() = default;

absl::StatusOr<TorchScriptPass> TorchScriptModule::Forward(const TorchScriptInput& input) {
  SPLITVEIL_RETURN_IF_ERROR(state_->CheckInput(input));
  state_->predicting.reset();  // It has the buffers as they were.
  return CatchTorchErrors<absl::StatusOr<TorchScriptPass>>("forward", [&]() -> absl::StatusOr<TorchScriptPass> {
    // Beside other batches in flight a copy: each is differentiated with the parameters and buffers that it was
    // computed with. A batch by itself runs on the module, which Update changes after it.
    const bool is_alone = state_->living.use_count() == 1;
    torch::jit::Module module = is_alone ? state_->module : CopyModule(state_->module, /*train=*/true);
    module.train(true);  // A forward may have set it.
    // Dropout draws from LibTorch's global generator: seeded for each pass, so that a repeated batch gives the same
    // bytes.
    SeedDefaultGenerator(state_->draws.seed + state_->draws.passes);
    const at::AutoGradMode grad(true);
    SPLITVEIL_ASSIGN_OR_RETURN(TorchScriptRun run, RunTorchScript(state_->options, *state_->forward, module, input));
    // Running statistics (BatchNorm) count with the next batch already, as in Python.
    AssignAttributes(module, state_->module);
    ++state_->draws.passes;
    TorchScriptPass pass;
    pass.state_->run = std::move(run);
    pass.state_->parameters = is_alone ? state_->parameters : TrainedParameters(module);
    pass.state_->living = state_->living;
    // A pass by itself reads the module's own parameters, which Update leaves to it if it still lives then.
    pass.state_->sharing = is_alone ? state_->sharing : nullptr;
    return pass;
  });
}

absl::StatusOr<Matrix> TorchScriptModule::Predict(const TorchScriptInput& input) const {
  SPLITVEIL_RETURN_IF_ERROR(state_->CheckInput(input));
  return CatchTorchErrors<absl::StatusOr<Matrix>>("predict", [&]() -> absl::StatusOr<Matrix> {
    const at::NoGradGuard no_grad;
    if (!state_->predicting.has_value()) {
      state_->predicting.emplace(ScriptToPredict());
    }
    // Taken out first: after an error the copy may be half changed.
    UnchangedModule predicting = *std::exchange(state_->predicting, std::nullopt);
    SPLITVEIL_ASSIGN_OR_RETURN(const TorchScriptRun run,
                               RunTorchScript(state_->options, *state_->forward, predicting.module(), input));
    // A forward may count its calls: the next Predict must not see that.
    if (predicting.IsAsMade()) {
      state_->predicting = std::move(predicting);
    }
    return CopyToMatrix(run.output);
  });
}

absl::StatusOr<TorchScriptGradients> TorchScriptModule::Backward(TorchScriptPass& pass, ConstMatrixView output_gradient,
                                                                 absl::Span<const std::string> layers) {
  if (pass.state_->served) {
    return absl::FailedPreconditionError("backward: expected a pass that has not been back-propagated yet");
  }
  const int64_t rows = pass.state_->run.output.size(0);
  // After a refused call the pass stays usable.
  SPLITVEIL_RETURN_IF_ERROR(state_->CheckOutputGradient(output_gradient, rows));
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<const LayerOutput*> outputs, state_->FindLayers(pass, layers));
  using Result = absl::StatusOr<TorchScriptGradients>;
  return CatchTorchErrors<Result>("backward", [&]() -> Result {
    // One pass through the graph for parameters, layers and inputs: in this order, as they are read below.
    std::vector<Edge> edges = EdgesOf(pass.state_->parameters);
    for (const LayerOutput* output : outputs) {
      edges.push_back(output->edge);
    }
    for (const at::Tensor& input : pass.state_->run.inputs) {
      if (input.requires_grad()) {
        edges.push_back(torch::autograd::impl::gradient_edge(input));
      }
    }
    // Before the computation: a pass that failed half-way cannot be trusted for a second try.
    pass.state_->served = true;
    const std::vector<at::Tensor> gradients =
        Differentiate(pass.state_->run.output, WrapMatrix(output_gradient), edges);

    const at::NoGradGuard no_grad;
    auto next = gradients.begin();
    for (at::Tensor& parameter : state_->parameters) {
      const at::Tensor& sum = *next++;
      // Left undefined if the output does not depend on it: the optimiser passes over it, as in Python.
      parameter.mutable_grad() = sum.defined() ? sum.div(static_cast<double>(rows)).contiguous() : at::Tensor();
    }
    state_->has_gradient = true;
    TorchScriptGradients result;
    for (const LayerOutput* output : outputs) {
      result.layers.push_back(CopyToMatrix(OrZeros(*next++, output->sizes)));
    }
    for (const at::Tensor& input : pass.state_->run.inputs) {
      result.inputs.push_back(input.requires_grad() ? CopyToMatrix(OrZeros(*next++, input.sizes().vec())) : Matrix());
    }
    return result;
  });
}

absl::StatusOr<Matrix> TorchScriptModule::InputGradient(const TorchScriptPass& pass,
                                                        ConstMatrixView output_gradient) const {
  SPLITVEIL_RETURN_IF_ERROR(state_->CheckOutputGradient(output_gradient, pass.state_->run.output.size(0)));
  const at::Tensor& input = pass.state_->run.inputs.front();
  if (!input.requires_grad()) {
    return absl::FailedPreconditionError("gradient at the input: expected an input with a gradient, found none");
  }
  return CatchTorchErrors<absl::StatusOr<Matrix>>("gradient at the input", [&]() -> absl::StatusOr<Matrix> {
    const std::vector<at::Tensor> gradients = Differentiate(pass.state_->run.output, WrapMatrix(output_gradient),
                                                            {torch::autograd::impl::gradient_edge(input)});
    return CopyToMatrix(OrZeros(gradients.front(), input.sizes().vec()));
  });
}

absl::StatusOr<std::vector<std::vector<float>>> TorchScriptModule::BackwardRow(
    const TorchScriptPass& pass, int64_t row, absl::Span<const float> output_gradient,
    absl::Span<const std::string> layers) const {
  const int64_t rows = pass.state_->run.output.size(0);
  if (row < 0 || row >= rows) {
    return absl::InvalidArgumentError(absl::StrCat("row: expected 0 to ", rows - 1, ", found ", row));
  }
  const ConstMatrixView gradient(output_gradient.data(), 1, static_cast<int64_t>(output_gradient.size()));
  SPLITVEIL_RETURN_IF_ERROR(state_->CheckOutputGradient(gradient, 1));
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<const LayerOutput*> outputs, state_->FindLayers(pass, layers));
  using Result = absl::StatusOr<std::vector<std::vector<float>>>;
  return CatchTorchErrors<Result>("backward of a row", [&]() -> Result {
    std::vector<Edge> edges;
    for (const LayerOutput* output : outputs) {
      edges.push_back(output->edge);
    }
    // Through the batch's own graph: a row computed alone would differ if the batch is normalised.
    // The other rows get no gradient, but stay part of the computation.
    const at::Tensor only_row = at::zeros({rows, state_->options.output_width});
    only_row[row].copy_(WrapMatrix(gradient)[0]);
    const std::vector<at::Tensor> gradients = Differentiate(pass.state_->run.output, only_row, edges);
    std::vector<std::vector<float>> result;
    for (size_t i = 0; i < edges.size(); ++i) {
      const at::Tensor values = OrZeros(gradients[i], outputs[i]->sizes)[row].contiguous();
      result.emplace_back(values.data_ptr<float>(), values.data_ptr<float>() + values.numel());
    }
    return result;
  });
}

absl::Status TorchScriptModule::Update() {
  if (!state_->has_gradient) {
    return absl::FailedPreconditionError("update: expected a backward since the last update, found none");
  }
  return CatchTorchErrors<absl::Status>("update", [&]() -> absl::Status {
    // Before any parameter moves: a gradient that is not finite changes nothing.
    SPLITVEIL_ASSIGN_OR_RETURN(const double scale, state_->ClippingScale());
    state_->LeaveParametersToPasses();
    for (size_t i = 0; i < state_->parameters.size(); ++i) {
      at::Tensor& parameter = state_->parameters[i];
      if (parameter.grad().defined()) {
        const absl::Span<const float> gradient(parameter.grad().data_ptr<float>(),
                                               static_cast<size_t>(parameter.numel()));
        state_->optimizers[i].Step({gradient}, scale, parameter.data_ptr<float>());
      }
    }
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < state_->averages.size(); ++i) {
      // The averages move after the step, towards the new parameters.
      state_->averages[i].lerp_(state_->parameters[i], state_->options.optimizer.AverageRate(state_->steps));
    }
    state_->has_gradient = false;
    ++state_->steps;
    return absl::OkStatus();
  });
}

const std::vector<std::string>& TorchScriptModule::layers() const { return state_->layers; }

NamedParameters TorchScriptModule::Values(Part part) const {
  NamedParameters values;
  for (const NamedTensor& tensor : state_->Tensors(part)) {
    values.emplace_back(tensor.name, tensor.Read());
  }
  return values;
}

absl::Status TorchScriptModule::SetValues(Part part, const NamedParameters& values) {
  const at::NoGradGuard no_grad;
  state_->LeaveParametersToPasses();
  std::vector<NamedTensor> tensors = state_->Tensors(part);
  // All names and sizes first: a state that does not fit changes nothing.
  const bool fits =
      std::equal(tensors.begin(), tensors.end(), values.begin(), values.end(),
                 [](const auto& own, const auto& other) { return own.name == other.first && own.Fits(other.second); });
  if (!fits) {
    return absl::InvalidArgumentError("values: names and sizes must be the module's, in its order");
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    tensors[i].Write(values[i].second);
  }
  for (size_t i = 0; part == Part::kTraining && i < state_->optimizers.size(); ++i) {
    state_->optimizers[i].set_steps(tensors.back().tensor[static_cast<int64_t>(i)].item<int64_t>());
  }
  return absl::OkStatus();
}

torch::jit::Module TorchScriptModule::ScriptToPredict() const {
  const at::NoGradGuard no_grad;
  // A copy: prediction must not move running statistics.
  torch::jit::Module copy = CopyModule(state_->module, /*train=*/false);
  std::vector<at::Tensor> parameters = TrainedParameters(copy);
  for (size_t i = 0; i < state_->averages.size(); ++i) {
    parameters[i].copy_(state_->averages[i]);
  }
  return copy;
}

int64_t TorchScriptModule::steps() const { return state_->steps; }

void TorchScriptModule::set_steps(int64_t steps) { state_->steps = steps; }

TorchScriptModule::Draws TorchScriptModule::draws() const { return state_->draws; }

void TorchScriptModule::set_draws(const Draws& draws) { state_->draws = draws; }

}  // namespace splitveil
