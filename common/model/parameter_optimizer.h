// One optimiser for dense parameters and for the rows of embeddings: the arithmetic of a step, and what it remembers.
#ifndef SPLITVEIL_COMMON_MODEL_PARAMETER_OPTIMIZER_H_
#define SPLITVEIL_COMMON_MODEL_PARAMETER_OPTIMIZER_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

#include "common/model/huge_page_vector.h"
#include "common/model/optimizer_options.h"

namespace splitveil {

// Trains `size` parameters that lie in one piece. A parameter's value, gradient and moments are read and written in one
// pass. Dense steps are those of torch::optim::Adam, AdamW, SGD and Adagrad; row steps are lazy (v1::Optimizer), and
// cost nothing for the rows that do not occur. Not thread-safe.
class ParameterOptimizer {
 public:
  // Throws std::bad_alloc where the moments' memory cannot be had.
  ParameterOptimizer(const OptimizerOptions& options, size_t size);

  // A step on all parameters, `values` [size]. Their gradient is `gradients`, one piece behind the other, times
  // `gradient_scale`.
  void StepDense(absl::Span<const absl::Span<const float>> gradients, double gradient_scale, float* values);
  // A step on the rows `rows` [n], each once, of a table `values` [size / dimension, dimension]. `gradients` [n,
  // dimension]. Neither L2 penalty nor weight decay.
  void StepRows(absl::Span<const int64_t> rows, const float* gradients, int64_t dimension, double gradient_scale,
                float* values);

  const OptimizerOptions& options() const { return options_; }
  // Steps so far, of either kind.
  int64_t steps() const { return steps_; }
  void set_steps(int64_t steps) { steps_ = steps; }
  // The `index`-th moment, of options().moments(): [size]. Adam: mean of the gradients and of their squares; SGD: the
  // momentum; Adagrad: the sum of squares.
  absl::Span<float> moment(int index) { return absl::MakeSpan(moments_[index]); }

 private:
  OptimizerOptions options_;
  int64_t steps_ = 0;
  std::array<HugePageVector<float>, 2> moments_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_MODEL_PARAMETER_OPTIMIZER_H_
