// Outputs of a TorchScript module's submodules, noted while its forward runs. Shows LibTorch: for the sources of
// common/model only.
#ifndef SPLITVEIL_COMMON_MODEL_TORCHSCRIPT_LAYERS_H_
#define SPLITVEIL_COMMON_MODEL_TORCHSCRIPT_LAYERS_H_

#include <ATen/core/ivalue.h>
#include <cstdint>
#include <memory>
#include <string>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/jit/api/module.h>
#include <vector>

namespace splitveil {

// Where in autograd's graph a submodule's output stood when the submodule returned. What later works on the output in
// place does not move it.
struct LayerOutput {
  std::string layer;           // The submodule's attribute path: "features.0".
  torch::autograd::Edge edge;  // Invalid where no gradient can reach the output.
  std::vector<int64_t> sizes;  // Of the output.
  at::ScalarType dtype = at::kFloat;
};

// The `forward` of a module with every call of a submodule's forward in its straight-line part, and in that of those,
// written out and noted. Works for scripted and traced modules. Runs without the graph optimiser, operation by
// operation as Python would. Throws c10::Error. One thread at a time.
class LayeredForward {
 public:
  explicit LayeredForward(const torch::jit::Module& module);
  ~LayeredForward();

  // Runs forward of `module`, which may be any copy of the one at construction. `outputs`: in the order they were made;
  // of a submodule that is called several times the last one; only tensors.
  c10::IValue Run(const torch::jit::Module& module, std::vector<c10::IValue> inputs,
                  std::vector<LayerOutput>& outputs) const;

 private:
  std::unique_ptr<torch::jit::GraphFunction> function_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_MODEL_TORCHSCRIPT_LAYERS_H_
