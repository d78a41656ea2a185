// A TorchScript file as a trainable function: a model half that the user brings.
//
// A TorchScript file is a program, not only data: its forward can read files and take any amount of memory and time.
// Load only what comes from someone whose programs you would run.
#ifndef SPLITVEIL_COMMON_MODEL_TORCHSCRIPT_MODULE_H_
#define SPLITVEIL_COMMON_MODEL_TORCHSCRIPT_MODULE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/matrix/matrix.h"
#include "common/model/parameters.h"
#include "common/model/torchscript_run.h"

namespace torch::jit {
struct Module;
}  // namespace torch::jit

namespace splitveil {

// Number of arguments that the forward in the file `path` must be given. Errors: InvalidArgument with `field` and file.
absl::StatusOr<int> CountTorchScriptArguments(const std::string& field, const std::string& path);

// A batch between its forward and its backward computation, with the parameters it was computed with.
class TorchScriptPass {
 public:
  TorchScriptPass();
  TorchScriptPass(TorchScriptPass&& other) noexcept;
  TorchScriptPass& operator=(TorchScriptPass&& other) noexcept;
  ~TorchScriptPass();

  // [batch, output_width]. Lives as long as the pass.
  ConstMatrixView output() const;

 private:
  friend class TorchScriptModule;
  struct State;
  std::unique_ptr<State> state_;
};

// Row j belongs to example j, not divided by the batch. If the module mixes the examples of a batch (BatchNorm), it
// is the derivative of the batch's summed loss at example j's values.
struct TorchScriptGradients {
  std::vector<Matrix> inputs;  // At each of Options::numbers, [batch, values]; empty if not asked for.
  std::vector<Matrix> layers;  // At the output of each requested layer, flattened to [batch, values].
};

// Trained in place: Forward runs in train mode and then keeps what the module changed of itself (running statistics,
// counters), also of a pass that fails. It copies the module only if an earlier pass still lives, and Update only if
// one does that shares its parameters: with one batch in flight, neither. Predict runs in eval mode, with the averages
// of the trained parameters where there are any, and keeps nothing of what the module changed of itself: it runs on one
// copy until the next Forward, Update or SetValues, or until a run has changed that copy. Update moves the parameters
// that the file marks as trained. The n-th Forward, from 0, draws (Dropout) as after torch.manual_seed(seed + n).
// float32 on the CPU. Errors of the module while it runs come back as Internal. Not thread-safe.
class TorchScriptModule {
 public:
  using Numbers = TorchScriptNumbers;
  using Options = TorchScriptOptions;

  // Loads the file and runs it on made-up batches of 2 and 3 rows, in both modes and back. Errors: InvalidArgument with
  // field, file, expected and found if there is no such file or no TorchScript in it, forward takes other arguments,
  // fails, gives a wrong shape, trains nothing or does not predict (Options::rows_apart: nor train) each row for
  // itself, or if parameters are not float32 or overlap.
  static absl::StatusOr<std::unique_ptr<TorchScriptModule>> Create(const Options& options);
  ~TorchScriptModule();

  absl::StatusOr<TorchScriptPass> Forward(const TorchScriptInput& input);
  // [batch, output_width]
  absl::StatusOr<Matrix> Predict(const TorchScriptInput& input) const;

  // Back-propagates per-example gradients at the output, [batch, output_width]. Keeps the mean over the batch of the
  // parameters' gradients for Update. A pass serves once: FailedPrecondition afterwards. InvalidArgument for a layer
  // that is not among `layers()`.
  absl::StatusOr<TorchScriptGradients> Backward(TorchScriptPass& pass, ConstMatrixView output_gradient,
                                                absl::Span<const std::string> layers);
  // Gradients at the first of Options::numbers, [batch, values], of `output_gradient` [batch, output_width] (before or
  // after the pass's Backward). Changes nothing. FailedPrecondition if that input has none (Numbers.gradient).
  absl::StatusOr<Matrix> InputGradient(const TorchScriptPass& pass, ConstMatrixView output_gradient) const;
  // Back-propagates one gradient [output_width] from example `row` of `pass` (before or after its Backward), with the
  // pass's own parameters: the gradient at that row of each of `layers`. Changes nothing.
  absl::StatusOr<std::vector<std::vector<float>>> BackwardRow(const TorchScriptPass& pass, int64_t row,
                                                              absl::Span<const float> output_gradient,
                                                              absl::Span<const std::string> layers) const;
  // One optimiser step with the gradients of the latest Backward. FailedPrecondition if there has been none since
  // the last step.
  absl::Status Update();

  // Attribute paths ("features.0") of the submodules whose outputs can be asked for, in the order they are computed: a
  // tensor of floats, the batch first, that training reaches. One called several times gives its last output.
  const std::vector<std::string>& layers() const;

  // What of the module can be copied out and put back.
  enum class Part {
    // Parameters and buffers by their names in the state dict. What no optimiser moves may be of any type and value
    // (int64, -inf): its bytes, two in each float.
    kModel,
    kPrediction,  // The same with the averages, if there are any, for the trained parameters.
    // Beside them the optimiser's moments and the averages of the trained parameters, and "parameter_steps": how often
    // each was moved, which a parameter that a batch does not reach is not.
    kTraining,
  };
  NamedParameters Values(Part part) const;
  // Overwrites them; `values` has the names and sizes of Values, in its order, else InvalidArgument.
  absl::Status SetValues(Part part, const NamedParameters& values);
  // Updates so far.
  int64_t steps() const;
  void set_steps(int64_t steps);
  // What the next Forward draws as: torch.manual_seed(seed + passes).
  struct Draws {
    uint64_t seed = 0;    // Options::seed.
    uint64_t passes = 0;  // Forwards so far.
  };
  Draws draws() const;
  void set_draws(const Draws& draws);
  // A copy in eval mode of the module as Predict runs it, for the sources of common/model.
  torch::jit::Module ScriptToPredict() const;

 private:
  struct State;
  explicit TorchScriptModule(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_MODEL_TORCHSCRIPT_MODULE_H_
