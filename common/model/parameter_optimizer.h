// The optimiser of dense parameters, those that every step changes.
#ifndef SPLITVEIL_COMMON_MODEL_PARAMETER_OPTIMIZER_H_
#define SPLITVEIL_COMMON_MODEL_PARAMETER_OPTIMIZER_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

#include "common/model/huge_page_vector.h"
#include "common/model/optimizer_options.h"

namespace splitveil {

// Trains `size` parameters that lie in one piece, and remembers their moments. Steps are those of torch::optim::Adam,
// AdamW, SGD and Adagrad. Not thread-safe.
class ParameterOptimizer {
 public:
  // Throws std::bad_alloc where the moments' memory cannot be had.
  ParameterOptimizer(const OptimizerOptions& options, size_t size);

  // A step on `values` [size]. Their gradient is `gradients`, one piece behind the other, times `gradient_scale`.
  void Step(absl::Span<const absl::Span<const float>> gradients, double gradient_scale, float* values);

  const OptimizerOptions& options() const { return options_; }
  // Steps so far.
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
