// A TorchScript module run on a batch: options, outputs of its submodules, derivatives. Shows LibTorch: for the sources
// of common/model only.
#ifndef SPLITVEIL_COMMON_MODEL_TORCHSCRIPT_RUN_H_
#define SPLITVEIL_COMMON_MODEL_TORCHSCRIPT_RUN_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <cstdint>
#include <memory>
#include <string>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/jit/api/module.h>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/matrix/matrix.h"
#include "common/model/optimizer_options.h"

namespace splitveil {

// An argument of forward: float32 [batch, shape...].
struct TorchScriptNumbers {
  std::vector<int64_t> shape;  // Of one example: {13}, or {3, 84, 84}.
  bool gradient = false;       // Whether Backward computes the gradient there.
};

struct TorchScriptOptions {
  std::string field;                        // Where the path stands in the configuration, for error messages.
  std::string path;                         // The file.
  std::vector<TorchScriptNumbers> numbers;  // The leading arguments of forward.
  int64_t category_columns = 0;             // If positive, a last argument: int64 [batch, category_columns].
  int64_t output_width = 0;                 // forward gives [batch, output_width]; if that is 1, [batch] will do.
  OptimizerOptions optimizer;
  std::string name_prefix;  // Of the names of Values.
  uint64_t seed = 0;
  bool rows_apart = false;  // Refuse a module that mixes the rows of a batch in train mode (BatchNorm).
};

// Arguments of a module's forward, read during the call only.
struct TorchScriptInput {
  std::vector<ConstMatrixView> numbers;  // One for each of TorchScriptOptions::numbers, [batch, values of its shape].
  absl::Span<const int64_t> categories;  // [batch * category_columns], row-major.
};

// Where in autograd's graph a submodule's output stood when the submodule returned. What later works on the output in
// place does not move it.
struct LayerOutput {
  std::string layer;           // The submodule's attribute path: "features.0".
  torch::autograd::Edge edge;  // Invalid if no gradient can reach the output.
  std::vector<int64_t> sizes;  // Of the output.
  at::ScalarType dtype = at::kFloat;
};

// The `forward` of a module, with the calls of submodules written out so that their outputs can be noted: every call in
// the straight-line part of forward, and recursively in theirs. Works for scripted and traced modules. Runs without the
// graph optimiser, operation by operation like Python. Throws c10::Error. One thread at a time.
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

struct TorchScriptRun {
  at::Tensor output;                // [batch, output_width], contiguous.
  std::vector<at::Tensor> inputs;   // The numbers, as given to forward.
  std::vector<LayerOutput> layers;  // In the order they were made.
};

// Runs `forward` on `module`, the module itself or a copy. `input` fits `options`. Errors: InvalidArgument if the
// output does not have the agreed shape. Throws what LibTorch throws.
absl::StatusOr<TorchScriptRun> RunTorchScript(const TorchScriptOptions& options, const LayeredForward& forward,
                                              const torch::jit::Module& module, const TorchScriptInput& input);

// Gradients of sum(output * output_gradient) at `edges`, which may be none; undefined if the output does not depend
// on one. The graph stays for a further call.
std::vector<at::Tensor> Differentiate(const at::Tensor& output, const at::Tensor& output_gradient,
                                      const std::vector<torch::autograd::Edge>& edges);

// What can be found out about a TorchScript module by running it, before a run begins.
// Runs copies of `module` on made-up batches of 2 and 3 rows, in train mode and back and in eval mode. Returns the
// layers whose gradients can be told: the names TorchScriptModule::layers has. Errors: InvalidArgument with expected
// and found if forward fails or gives a wrong shape, nothing in it can be trained, or in eval mode (with rows_apart in
// train mode, too) a row's output depends on other rows, or in eval mode on chance (a module traced in train mode).
absl::StatusOr<std::vector<std::string>> TryTorchScript(const TorchScriptOptions& options,
                                                        const LayeredForward& forward,
                                                        const torch::jit::Module& module);

// Seeds the default generator of LibTorch, from which Dropout and similar layers draw. The whole process shares it;
// takes its lock.
void SeedDefaultGenerator(uint64_t seed);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_MODEL_TORCHSCRIPT_RUN_H_
