#include "common/model/torchscript_run.h"

#include <ATen/ATen.h>
#include <algorithm>
#include <exception>
#include <functional>
#include <mutex>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/runtime/custom_operator.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "common/model/torch_boundary.h"
#include "common/model/torchscript_file.h"
#include "common/status/status_macros.h"

namespace splitveil {

namespace {

using torch::jit::Graph;
using torch::jit::Node;
using torch::jit::Value;

constexpr char kNote[] = "splitveil::note_layer_output";

// Where the run on this thread notes its outputs: the interpreter passes an operator only its operands.
thread_local std::vector<LayerOutput>* noting = nullptr;

void NoteLayerOutput(torch::jit::Stack& stack) {
  LayerOutput output;
  output.layer = torch::jit::pop(stack).toStringRef();
  const at::Tensor tensor = torch::jit::pop(stack).toTensor();
  if (noting == nullptr || !tensor.defined()) {
    return;
  }
  if (tensor.requires_grad()) {
    output.edge = torch::autograd::impl::gradient_edge(tensor);
  }
  output.sizes = tensor.sizes().vec();
  output.dtype = tensor.scalar_type();
  // A submodule that is called several times counts with its last output.
  noting->erase(std::remove_if(noting->begin(), noting->end(),
                               [&](const LayerOutput& earlier) { return earlier.layer == output.layer; }),
                noting->end());
  noting->push_back(std::move(output));
}

// CONSERVATIVE: declared to have effects, so that no optimisation pass removes it.
const torch::jit::RegisterOperators kRegistered({torch::jit::Operator(
    std::string(kNote) + "(Tensor output, str layer) -> ()", &NoteLayerOutput, c10::AliasAnalysisKind::CONSERVATIVE)});

// Path of the submodule that `value` is, from `self`, the module itself; none for anything else.
std::optional<std::string> ModulePath(const Value* value, const Value* self) {
  std::string path;
  while (value != self) {
    const Node* node = value->node();
    if (node->kind() != c10::prim::GetAttr) {
      return std::nullopt;
    }
    path = node->s(c10::attr::name) + (path.empty() ? "" : ".") + path;
    value = node->input(0);
  }
  return path;
}

// "forward", or "forward1" and so on, as tracing names the further calls of a submodule.
bool IsForward(const std::string& method) {
  constexpr char kForward[] = "forward";
  return absl::StartsWith(method, kForward) &&
         std::all_of(method.begin() + sizeof(kForward) - 1, method.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// The first call of a submodule's forward that stands in the top block, and the submodule's path.
std::pair<Node*, std::string> FirstSubmoduleCall(Graph& graph) {
  for (Node* node : graph.nodes()) {
    if (node->kind() != c10::prim::CallMethod || !IsForward(node->s(c10::attr::name)) ||
        torch::jit::tryToGraphFunction(node) == nullptr) {
      continue;
    }
    if (const std::optional<std::string> path = ModulePath(node->input(0), graph.inputs()[0])) {
      return {node, *path};
    }
  }
  return {nullptr, ""};
}

void NoteOutput(Graph& graph, Node* call, const std::string& path) {
  Value* output = call->outputs().size() == 1 ? call->output() : nullptr;
  if (path.empty() || output == nullptr || !output->type()->isSubtypeOf(*c10::TensorType::get())) {
    return;
  }
  const torch::jit::WithInsertPoint after(call->next());
  Value* name = graph.insertConstant(path);
  graph.insertNode(graph.create(c10::Symbol::fromQualString(kNote), {output, name}, /*num_outputs=*/0));
}

}  // namespace

LayeredForward::LayeredForward(const torch::jit::Module& module) {
  std::shared_ptr<Graph> graph = module.get_method("forward").graph()->copy();
  // Inlined one call after the other, so that the calls inside a submodule come to the top block and are found, too.
  for (auto [call, path] = FirstSubmoduleCall(*graph); call != nullptr;
       std::tie(call, path) = FirstSubmoduleCall(*graph)) {
    NoteOutput(*graph, call, path);
    torch::jit::GraphFunction* callee = torch::jit::tryToGraphFunction(call);
    callee->ensure_defined();
    torch::jit::inlineCallTo(call, callee, callee->graph().get());
  }
  function_ = std::make_unique<torch::jit::GraphFunction>("forward", std::move(graph), nullptr);
}

LayeredForward::~LayeredForward() = default;

c10::IValue LayeredForward::Run(const torch::jit::Module& module, std::vector<c10::IValue> inputs,
                                std::vector<LayerOutput>& outputs) const {
  // The optimiser would put operations into autograd nodes of its own, inside which a layer's gradient cannot be read.
  const torch::jit::GraphOptimizerEnabledGuard unoptimised(false);
  torch::jit::Stack stack;
  stack.emplace_back(module._ivalue());
  std::move(inputs.begin(), inputs.end(), std::back_inserter(stack));
  // Reset also if the module throws: the next run on this thread must not write into a dead vector.
  struct Noting {
    explicit Noting(std::vector<LayerOutput>* outputs) { noting = outputs; }
    ~Noting() { noting = nullptr; }
  } const while_running(&outputs);
  function_->run(stack);
  return torch::jit::pop(stack);
}

namespace {

// A copy, since a module may change its arguments in place.
at::Tensor ToTensor(ConstMatrixView values, const TorchScriptNumbers& numbers) {
  std::vector<int64_t> sizes = {values.rows()};
  sizes.insert(sizes.end(), numbers.shape.begin(), numbers.shape.end());
  return at::from_blob(const_cast<float*>(values.data()), sizes, at::kFloat)
      .requires_grad_(numbers.gradient && at::GradMode::is_enabled())
      .clone();
}

at::Tensor ToTensor(absl::Span<const int64_t> categories, int64_t columns) {
  const auto rows = static_cast<int64_t>(categories.size()) / columns;
  return at::from_blob(const_cast<int64_t*>(categories.data()), {rows, columns}, at::kLong).clone();
}

std::string Describe(const c10::IValue& output) {
  return output.isTensor() ? absl::StrCat(c10::toString(output.toTensor().scalar_type()), " [",
                                          absl::StrJoin(output.toTensor().sizes(), ", "), "]")
                           : output.tagKind();
}

}  // namespace

absl::StatusOr<TorchScriptRun> RunTorchScript(const TorchScriptOptions& options, const LayeredForward& forward,
                                              const torch::jit::Module& module, const TorchScriptInput& input) {
  TorchScriptRun run;
  std::vector<c10::IValue> arguments;
  for (size_t i = 0; i < input.numbers.size(); ++i) {
    run.inputs.push_back(ToTensor(input.numbers[i], options.numbers[i]));
    arguments.emplace_back(run.inputs.back());
  }
  if (options.category_columns > 0) {
    arguments.emplace_back(ToTensor(input.categories, options.category_columns));
  }
  const c10::IValue output = forward.Run(module, std::move(arguments), run.layers);
  const int64_t rows = input.numbers.front().rows();
  const std::vector<int64_t> expected = {rows, options.output_width};
  // A module with one output often drops the last dimension.
  const bool fits = output.isTensor() && output.toTensor().scalar_type() == at::kFloat &&
                    (output.toTensor().sizes() == expected ||
                     (options.output_width == 1 && output.toTensor().sizes() == at::IntArrayRef(rows)));
  if (!fits) {
    return absl::InvalidArgumentError(absl::StrCat("expected forward to give Float [", absl::StrJoin(expected, ", "),
                                                   "] for ", rows, " rows, found ", Describe(output)));
  }
  // Readers take it as plain rows.
  run.output = output.toTensor().reshape(expected).contiguous();
  return run;
}

std::vector<at::Tensor> Differentiate(const at::Tensor& output, const at::Tensor& output_gradient,
                                      const std::vector<torch::autograd::Edge>& edges) {
  if (edges.empty()) {
    return {};
  }
  return torch::autograd::Engine::get_default_engine().execute(
      {torch::autograd::impl::gradient_edge(output)}, {output_gradient}, /*keep_graph=*/true,
      /*create_graph=*/false, /*accumulate_grad=*/false, edges);
}

void SeedDefaultGenerator(uint64_t seed) {
  at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
  const std::lock_guard lock(generator.mutex());  // LibTorch's own.
  generator.set_current_seed(seed);
}

namespace {

// Numbers in [0, 1), as prepared data have, and category 0, which every vocabulary has. Of two batches the shorter is
// the beginning of the longer.
struct Batch {
  Batch(const TorchScriptOptions& options, int64_t rows)
      : categories(static_cast<size_t>(rows * options.category_columns)) {
    for (const TorchScriptNumbers& argument : options.numbers) {
      // Seeded again for each argument, so that the shorter batch is the beginning of the longer.
      std::mt19937 random(1);
      numbers.emplace_back(
          rows, std::accumulate(argument.shape.begin(), argument.shape.end(), int64_t{1}, std::multiplies<int64_t>()));
      std::generate_n(numbers.back().data(), numbers.back().size(),
                      [&] { return static_cast<float>(random() >> 8) * 0x1p-24F; });
    }
  }

  TorchScriptInput input() const { return {{numbers.begin(), numbers.end()}, categories}; }

  // The first row is as before, all others are shifted.
  void MoveOtherRows() {
    for (Matrix& argument : numbers) {
      const auto width = static_cast<size_t>(argument.cols());
      std::for_each(argument.data() + width, argument.data() + argument.size(),
                    [](float& value) { value = 1 - value / 2; });
    }
  }

  std::vector<Matrix> numbers;
  std::vector<int64_t> categories;
};

// A tensor of floats, the batch first, that training reaches.
bool IsLayer(const LayerOutput& output, int64_t rows) {
  return output.edge.is_valid() && output.dtype == at::kFloat && !output.sizes.empty() && output.sizes[0] == rows &&
         std::find(output.sizes.begin(), output.sizes.end(), 0) == output.sizes.end();
}

// Layers of `few` whose first dimension is the batch: it differs in `more`, a batch of a different size.
std::vector<const LayerOutput*> BatchFirstLayers(const TorchScriptRun& few, const TorchScriptRun& more) {
  std::vector<const LayerOutput*> layers;
  for (const LayerOutput& output : few.layers) {
    const auto other = std::find_if(more.layers.begin(), more.layers.end(),
                                    [&](const LayerOutput& candidate) { return candidate.layer == output.layer; });
    if (IsLayer(output, few.output.size(0)) && other != more.layers.end() && IsLayer(*other, more.output.size(0))) {
      layers.push_back(&output);
    }
  }
  return layers;
}

absl::StatusOr<std::vector<std::string>> TryTraining(const TorchScriptOptions& options, const LayeredForward& forward,
                                                     const torch::jit::Module& module, const Batch& few,
                                                     const Batch& more) {
  const at::AutoGradMode grad(true);
  SPLITVEIL_ASSIGN_OR_RETURN(const TorchScriptRun few_run,
                             RunTorchScript(options, forward, CopyModule(module, /*train=*/true), few.input()));
  SPLITVEIL_ASSIGN_OR_RETURN(const TorchScriptRun more_run,
                             RunTorchScript(options, forward, CopyModule(module, /*train=*/true), more.input()));
  if (!few_run.output.requires_grad()) {
    return absl::InvalidArgumentError("expected parameters that can be trained, found none that the output depends on");
  }
  const std::vector<const LayerOutput*> layers = BatchFirstLayers(few_run, more_run);
  std::vector<torch::autograd::Edge> edges;
  for (const LayerOutput* layer : layers) {
    edges.push_back(layer->edge);
  }
  // Only layers that training reaches: others have no gradient to attack.
  const std::vector<at::Tensor> gradients = Differentiate(few_run.output, at::ones_like(few_run.output), edges);
  std::vector<std::string> names;
  for (size_t i = 0; i < layers.size(); ++i) {
    if (gradients[i].defined()) {
      names.push_back(layers[i]->layer);
    }
  }
  return names;
}

// By values, not by layers' names: whatever mixes rows, a row's gradient is then made of other rows' labels, too.
absl::Status TryRowsApart(const TorchScriptOptions& options, const LayeredForward& forward,
                          const torch::jit::Module& module, const Batch& batch) {
  const at::NoGradGuard no_grad;
  std::vector<Batch> batches(2, batch);
  // If anything of the first row's output moves with the others, its gradient holds their labels, and noise on its own
  // label would not hide these (ARCHITECTURE, rule 3).
  batches[1].MoveOtherRows();
  std::vector<at::Tensor> first_rows;
  for (const Batch& of : batches) {
    SeedDefaultGenerator(options.seed);  // The same Dropout in both.
    SPLITVEIL_ASSIGN_OR_RETURN(const TorchScriptRun run,
                               RunTorchScript(options, forward, CopyModule(module, /*train=*/true), of.input()));
    first_rows.push_back(run.output[0]);
  }
  return at::equal(first_rows[0], first_rows[1])
             ? absl::OkStatus()
             : absl::InvalidArgumentError(
                   "in training a row's output depends on other rows (batch normalisation), but the protection adds "
                   "noise to each row by its own gradient: use layer normalisation, or a protection other than iso, "
                   "max_norm and marvell");
}

absl::Status TryPrediction(const TorchScriptOptions& options, const LayeredForward& forward,
                           const torch::jit::Module& module, const Batch& few, const Batch& more) {
  const at::NoGradGuard no_grad;
  const torch::jit::Module copy = CopyModule(module, /*train=*/false);
  SPLITVEIL_ASSIGN_OR_RETURN(const TorchScriptRun few_run, RunTorchScript(options, forward, copy, few.input()));
  SPLITVEIL_ASSIGN_OR_RETURN(const TorchScriptRun more_run, RunTorchScript(options, forward, copy, more.input()));
  // A tolerance, since products of matrices of different sizes are rounded differently.
  if (!at::allclose(few_run.output, more_run.output.narrow(0, 0, few_run.output.size(0)), 1e-4, 1e-4)) {
    return absl::InvalidArgumentError(
        "in eval mode a row's output changes with the other rows, or by chance: script the module, or trace it in eval "
        "mode");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<std::string>> TryTorchScript(const TorchScriptOptions& options,
                                                        const LayeredForward& forward,
                                                        const torch::jit::Module& module) {
  try {
    // Two sizes: a layer whose first dimension does not follow the batch is no layer of examples.
    const Batch few(options, 2);
    const Batch more(options, 3);
    // Whatever the user's program throws is a mistake in the file, found before the first message.
    absl::StatusOr<std::vector<std::string>> layers = TryTraining(options, forward, module, few, more);
    if (!layers.ok()) {
      return layers;
    }
    SPLITVEIL_RETURN_IF_ERROR(TryPrediction(options, forward, module, few, more));
    if (options.rows_apart) {
      SPLITVEIL_RETURN_IF_ERROR(TryRowsApart(options, forward, module, more));
    }
    return layers;
  } catch (const c10::Error& error) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected forward to run on a batch, found an error: ", error.what_without_backtrace()));
  } catch (const std::exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected forward to run on a batch, found an error: ", error.what()));
  }
}

}  // namespace splitveil
