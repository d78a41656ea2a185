// One run of a TorchScript module on a batch, and derivatives through it. Shows LibTorch: for the sources of
// common/model only.
#ifndef SPLITVEIL_COMMON_MODEL_TORCHSCRIPT_RUN_H_
#define SPLITVEIL_COMMON_MODEL_TORCHSCRIPT_RUN_H_

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/jit/api/module.h>
#include <vector>

#include "absl/status/statusor.h"

#include "common/model/torchscript_layers.h"
#include "common/model/torchscript_options.h"

namespace splitveil {

struct TorchScriptRun {
  at::Tensor output;                // [batch, output_width], contiguous.
  std::vector<at::Tensor> inputs;   // The numbers, as given to forward.
  std::vector<LayerOutput> layers;  // In the order they were made.
};

// Runs `forward` on `module`, the module itself or a copy. `input` fits `options`. InvalidArgument where the output has
// another shape than agreed. Throws what LibTorch throws.
absl::StatusOr<TorchScriptRun> RunTorchScript(const TorchScriptOptions& options, const LayeredForward& forward,
                                              const torch::jit::Module& module, const TorchScriptInput& input);

// Gradients of sum(output * output_gradient) at `edges`, which may be none; undefined where the output does not depend
// on one. The graph stays for a further call.
std::vector<at::Tensor> Differentiate(const at::Tensor& output, const at::Tensor& output_gradient,
                                      const std::vector<torch::autograd::Edge>& edges);

// Seeds what Dropout and its like draw from: LibTorch's default generator.
void SeedDefaultGenerator(uint64_t seed);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_MODEL_TORCHSCRIPT_RUN_H_
