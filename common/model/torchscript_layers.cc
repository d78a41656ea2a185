#include "common/model/torchscript_layers.h"

#include <algorithm>
#include <optional>
#include <torch/csrc/autograd/variable.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/runtime/custom_operator.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <utility>

#include "absl/strings/match.h"

namespace splitveil {
namespace {

using torch::jit::Graph;
using torch::jit::Node;
using torch::jit::Value;

constexpr char kNote[] = "splitveil::note_layer_output";

// Where the run under way on this thread notes its outputs. The interpreter hands an operator nothing but its operands.
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
  noting->erase(std::remove_if(noting->begin(), noting->end(),
                               [&](const LayerOutput& earlier) { return earlier.layer == output.layer; }),
                noting->end());
  noting->push_back(std::move(output));
}

// Conservative aliasing: the operator has an effect, so no pass removes it.
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
  // The optimiser would put operations into autograd nodes of its own, inside which no layer's gradient can be had.
  const torch::jit::GraphOptimizerEnabledGuard unoptimised(false);
  torch::jit::Stack stack;
  stack.emplace_back(module._ivalue());
  std::move(inputs.begin(), inputs.end(), std::back_inserter(stack));
  struct Noting {
    explicit Noting(std::vector<LayerOutput>* outputs) { noting = outputs; }
    ~Noting() { noting = nullptr; }
  } const while_running(&outputs);
  function_->run(stack);
  return torch::jit::pop(stack);
}

}  // namespace splitveil
