// Layers with their back-propagation and optimiser.
#ifndef SPLITVEIL_COMMON_MODEL_LAYER_STACK_H_
#define SPLITVEIL_COMMON_MODEL_LAYER_STACK_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/architecture/layer_plan.h"
#include "common/matrix/matrix.h"
#include "common/model/optimizer_options.h"
#include "common/model/parameters.h"

namespace splitveil {

// A batch between its forward and its backward computation: every layer's output and the parameters it was computed
// with (weight stashing: Narayanan et al., "PipeDream", SOSP 2019, section 3.3), so that the gradients are those of the
// activations that were sent even if other batches have been learnt from in between. The parameters are shared with
// the stack until it is trained; a pass that is dropped before that costs no copy of them.
class LayerPass {
 public:
  LayerPass();
  LayerPass(LayerPass&& other) noexcept;
  LayerPass& operator=(LayerPass&& other) noexcept;
  ~LayerPass();

  // The last layer's output after its activation function and pooling, [batch, output_width]. Lives as long as the
  // pass.
  ConstMatrixView output() const;

 private:
  friend class LayerStack;
  struct State;
  std::unique_ptr<State> state_;
};

// Per-example gradients: row j belongs to example j's own loss and is not divided by the batch.
struct StackGradients {
  ConstMatrixView input;                 // [batch, input_width]; empty unless LayerStack::Options::input_gradient.
  ConstMatrixView side;                  // [batch, side_width]; empty unless LayerStack::Options::side_gradient.
  std::vector<ConstMatrixView> outputs;  // At each requested output, [batch, its width].
  std::shared_ptr<const void> memory;    // Holds what the views show.
};

// Layer l: output_l = pool_l(activation_l(output_{l-1} * W_l + b_l)), the product being a convolution or, for a fully
// connected layer, that with the flattened output. Weights and biases start uniform in [-1/sqrt(fan_in),
// 1/sqrt(fan_in)] (the default of torch::nn::Linear and Conv2d, Kaiming-uniform with a = sqrt(5)), drawn from a
// generator of the object's own. CPU, float32. Every error of LibTorch comes back as Internal. Not thread-safe; the
// numbers depend on the BLAS, the processor and the number of threads.
class LayerStack {
 public:
  struct Options {
    LayerChain chain;
    OptimizerOptions optimizer;
    uint64_t seed = 0;
    bool input_gradient = false;  // Whether Backward computes the gradient at the input,
    bool side_gradient = false;   // at the side input.
    // Whether the parameters' gradients wait for Update, so that those of Backward are there sooner. What the pass was
    // computed from must then stay until Update.
    bool gradients_in_update = false;
  };

  // Errors: InvalidArgument as PlanLayers.
  static absl::StatusOr<std::unique_ptr<LayerStack>> Create(const Options& options);
  ~LayerStack();

  int64_t output_width() const;
  // What the layers compute, and which of them reads the side input; -1: none.
  const std::vector<PlannedLayer>& plan() const;
  int64_t side_layer() const;

  // `input` [batch >= 1, input_width] and, if the chain has a side input, `side` [batch, side_width] are not copied
  // and must outlive the pass.
  absl::StatusOr<LayerPass> Forward(ConstMatrixView input, ConstMatrixView side = {}) const;
  // The last layer's output, [batch, output_width], with the parameters' average if there is one, keeping nothing.
  absl::StatusOr<Matrix> Predict(ConstMatrixView input, ConstMatrixView side = {}) const;

  // Back-propagates per-example gradients at the last output, [batch, output_width], which must stay until Update
  // if that computes gradients. The parameters' gradients are for Update; a batch may come in several passes, each
  // with its Backward. `outputs`: which gradients to return, as indices into OutputNames of the chain's layers. A pass
  // serves once: FailedPrecondition afterwards.
  absl::StatusOr<StackGradients> Backward(LayerPass& pass, ConstMatrixView output_gradient,
                                          absl::Span<const int64_t> outputs);
  // Per-example gradients at the input, [batch, input_width], of `output_gradient` [batch, output_width] (before or
  // after the pass's Backward). Changes nothing.
  absl::StatusOr<Matrix> InputGradient(const LayerPass& pass, ConstMatrixView output_gradient) const;
  // Back-propagates one objective's per-example gradients at the last output, [batch, output_width]: to the parameters,
  // summed over the rows of `pass`, and to the input, row by row. Before or after the pass's Backward. Changes nothing.
  struct ObjectiveGradient {
    std::vector<float> parameters;  // As `parameters` has them, back to back.
    Matrix input;                   // [batch, input_width]; empty unless Options::input_gradient.
  };
  absl::StatusOr<ObjectiveGradient> GradientOf(const LayerPass& pass, ConstMatrixView output_gradient) const;
  // After the pass's Backward: adds an objective's gradients to those that the next Update takes; the rows count once.
  // Returns the gradients at the input, see ObjectiveGradient.
  absl::StatusOr<Matrix> AddGradient(const LayerPass& pass, ConstMatrixView output_gradient);
  // Back-propagates one gradient [output_width] through example `row` of `pass` (before or after its Backward), with
  // the pass's own parameters: the gradient at each of `outputs`. Changes nothing.
  absl::StatusOr<std::vector<std::vector<float>>> BackwardRow(const LayerPass& pass, int64_t row,
                                                              absl::Span<const float> output_gradient,
                                                              absl::Span<const int64_t> outputs) const;
  // For a batch of which several processes have some rows each: replaces the gradients that the next Update takes, sums
  // over the rows of the Backwards since the last step (without one: zeros), by what `sum` makes of them, all in one
  // piece in the order of `parameters`, and counts them as sums over `rows`. Errors: of `sum`.
  absl::Status ShareGradients(const std::function<absl::Status(absl::Span<float>)>& sum, int64_t rows);
  // One optimiser step of each of `stacks` with the mean of the gradients over all rows of the Backwards since its last
  // step, which OptimizerOptions::clip_norm (of the first) clips all together. FailedPrecondition if one has had
  // none since; Internal if their norm is to be clipped and is not finite.
  static absl::Status Update(absl::Span<LayerStack* const> stacks);
  // Drops what the Backwards since the last step have kept for Update. After an error, or the failed batch would be
  // learnt together with the next one.
  void Forget();

  // "`prefix`NAME.weight" ([units, inputs], of a convolution [channels, input channels, kernel, kernel]) and
  // "`prefix`NAME.bias" ([units]) of each layer. To be read or written at once: training moves them.
  std::vector<ParameterView> parameters(const std::string& prefix, ParameterUse use = ParameterUse::kTraining);
  // What else training resumes from: their moments under MomentName and averages under AverageName.
  std::vector<ParameterView> optimizer_state(const std::string& prefix);
  // The average, if there is one, restarts from the parameters.
  void RestartAverage();
  // Steps of the optimiser so far.
  int64_t steps() const;
  void set_steps(int64_t steps);

 private:
  struct State;
  explicit LayerStack(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_MODEL_LAYER_STACK_H_
