// Fully connected layers with their back-propagation and optimiser: the one place that calls LibTorch.
#ifndef SPLITVEIL_COMMON_MODEL_DENSE_STACK_H_
#define SPLITVEIL_COMMON_MODEL_DENSE_STACK_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/matrix/matrix.h"
#include "common/model/adam_options.h"
#include "common/model/parameters.h"

#include "splitveil/v1/model.pb.h"

namespace splitveil {

// A batch between its forward and its backward computation: every layer's output and the parameters it was computed
// with (weight stashing: Narayanan et al., "PipeDream", SOSP 2019, section 3.3), so that the gradients are those of the
// activations that were sent even where other batches have been learnt from in between.
class DensePass {
 public:
  DensePass();
  DensePass(DensePass&& other) noexcept;
  DensePass& operator=(DensePass&& other) noexcept;
  ~DensePass();

  // The last layer's output after its activation function, [batch, units]. Lives as long as the pass.
  ConstMatrixView output() const;

 private:
  friend class DenseStack;
  struct State;
  std::unique_ptr<State> state_;
};

// Per-example gradients: row j belongs to example j's own loss and is not divided by the batch.
struct DenseGradients {
  Matrix input;  // [batch, input_width]; empty unless DenseStack::Options::input_gradient.
  std::vector<Matrix>
      outputs;  // At the output (after the activation function) of each requested layer, [batch, units].
};

// Layer l: output_l = activation_l(output_{l-1} W_l^T + b_l). Weights and biases start uniform in
// [-1/sqrt(inputs), 1/sqrt(inputs)] (the default of torch::nn::Linear, Kaiming-uniform with a = sqrt(5)), drawn from a
// generator of the object's own. Trained by torch::optim::Adam. CPU, float32. Every error of LibTorch comes back as
// Internal. Not thread-safe; the numbers depend on the BLAS and its number of threads.
class DenseStack {
 public:
  struct Options {
    std::string field;        // Where `layers` stands in the configuration, for error messages: "bottom_model".
    int64_t input_width = 0;  // >= 1
    std::vector<v1::Layer> layers;
    AdamOptions adam;
    uint64_t seed = 0;
    bool input_gradient = false;  // Whether Backward computes the gradient at the input.
  };

  // Errors: InvalidArgument with field, expected and found: no layers, a name empty or repeated, units out of range.
  static absl::StatusOr<std::unique_ptr<DenseStack>> Create(const Options& options);
  ~DenseStack();

  // `input` [batch >= 1, input_width] is not copied and must outlive the pass.
  absl::StatusOr<DensePass> Forward(ConstMatrixView input) const;
  // The last layer's output, [batch, units], keeping nothing.
  absl::StatusOr<Matrix> Predict(ConstMatrixView input) const;

  // Back-propagates per-example gradients at the last output, [batch, units]. Keeps the mean over the batch of the
  // parameters' gradients for Update. `layers`: whose output gradients to return, 0 is the first. A pass serves once:
  // FailedPrecondition afterwards.
  absl::StatusOr<DenseGradients> Backward(DensePass& pass, ConstMatrixView output_gradient,
                                          absl::Span<const int64_t> layers);
  // Back-propagates one gradient [units of the last layer] through example `row` of `pass` (before or after its
  // Backward), with the pass's own parameters: the gradient at each of `layers`. Changes nothing.
  absl::StatusOr<std::vector<std::vector<float>>> BackwardRow(const DensePass& pass, int64_t row,
                                                              absl::Span<const float> output_gradient,
                                                              absl::Span<const int64_t> layers) const;
  // One step of Adam with the gradients of the latest Backward. FailedPrecondition where there has been none since the
  // last step.
  absl::Status Update();

  // "`prefix`NAME.weight" ([units, inputs]) and "`prefix`NAME.bias" of each layer.
  std::vector<ParameterView> parameters(const std::string& prefix);

 private:
  struct State;
  explicit DenseStack(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_MODEL_DENSE_STACK_H_
