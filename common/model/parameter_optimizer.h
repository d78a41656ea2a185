// The arithmetic of an optimiser step, wherever the parameters and what is remembered of them lie. For the sources of
// this folder.
#ifndef SPLITVEIL_COMMON_MODEL_PARAMETER_OPTIMIZER_H_
#define SPLITVEIL_COMMON_MODEL_PARAMETER_OPTIMIZER_H_

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

#include "common/model/huge_page_vector.h"
#include "common/model/optimizer_options.h"

namespace splitveil {

// Moments before the first step.
inline float InitialMoment(const OptimizerOptions& options) {
  return options.method == OptimizerOptions::Method::kAdagrad ? static_cast<float>(options.initial_accumulator) : 0;
}

// The rules: each updates `size` parameters that lie one behind the other, and their moments, in one pass. `first` and
// `second`: the moments of the same parameters (OptimizerOptions::moments); one that the method has not is not touched.
struct GradientRule {
  float scale = 1;
  float l2 = 0;

  float operator()(float gradient, float value) const { return gradient * scale + l2 * value; }
};

// Adam and AdamW: rate1 = 1 - beta1, rate2 = 1 - beta2; `keep`: 1 - learning rate * weight decay.
struct AdamRule {
  GradientRule gradient_of;
  float rate1;
  float rate2;
  float step_size;
  float epsilon;
  float keep;  // What weight decay leaves.

  void Apply(const float* __restrict gradient, int64_t size, float* __restrict values, float* __restrict first,
             float* __restrict second) const {
    for (int64_t i = 0; i < size; ++i) {
      const float g = gradient_of(gradient[i], values[i]);
      first[i] += (g - first[i]) * rate1;
      second[i] += (g * g - second[i]) * rate2;
      values[i] = values[i] * keep - step_size * (first[i] / (std::sqrt(second[i]) + epsilon));
    }
  }
};

// Plain gradient descent.
struct SgdRule {
  GradientRule gradient_of;
  float rate;

  void Apply(const float* __restrict gradient, int64_t size, float* __restrict values, float*, float*) const {
    for (int64_t i = 0; i < size; ++i) {
      values[i] -= rate * gradient_of(gradient[i], values[i]);
    }
  }
};

// As torch.optim.SGD: the momentum sums gradients, without dampening.
struct MomentumRule {
  GradientRule gradient_of;
  float rate;
  float momentum;
  bool nesterov;

  void Apply(const float* __restrict gradient, int64_t size, float* __restrict values, float* __restrict first,
             float*) const {
    for (int64_t i = 0; i < size; ++i) {
      const float g = gradient_of(gradient[i], values[i]);
      first[i] = first[i] * momentum + g;
      values[i] -= rate * (nesterov ? g + momentum * first[i] : first[i]);
    }
  }
};

// Duchi, Hazan and Singer, JMLR 2011; `first`: sums of squares.
struct AdagradRule {
  GradientRule gradient_of;
  float rate;
  float epsilon;

  void Apply(const float* __restrict gradient, int64_t size, float* __restrict values, float* __restrict first,
             float*) const {
    for (int64_t i = 0; i < size; ++i) {
      const float g = gradient_of(gradient[i], values[i]);
      first[i] += g * g;
      values[i] -= rate * (g / (std::sqrt(first[i]) + epsilon));
    }
  }
};

// Kingma & Ba, ICLR 2015, with the bias corrections drawn out of the loop. torch.optim.SparseAdam adds epsilon to the
// root of the second moment before its correction, torch.optim.Adam after it.
inline AdamRule MakeAdamRule(const OptimizerOptions& options, int64_t step, bool dense) {
  const double correction1 = 1 - std::pow(options.beta1, step + 1);
  const double root_correction2 = std::sqrt(1 - std::pow(options.beta2, step + 1));
  const double rate = options.LearningRate(step);
  AdamRule rule;
  rule.rate1 = static_cast<float>(1 - options.beta1);
  rule.rate2 = static_cast<float>(1 - options.beta2);
  rule.step_size = static_cast<float>(rate * root_correction2 / correction1);
  rule.epsilon = static_cast<float>(dense ? options.epsilon * root_correction2 : options.epsilon);
  rule.keep = static_cast<float>(dense ? 1 - rate * options.weight_decay : 1);
  return rule;
}

// Calls `apply` with the rule of step `step`, from 0, of which the gradients are to be multiplied by `gradient_scale`.
// `dense`: a step on all parameters, that of torch::optim::Adam, AdamW, SGD or Adagrad. Else a lazy one on some rows of
// a table (v1::Optimizer), with neither L2 penalty nor weight decay.
template <typename Apply>
void WithRule(const OptimizerOptions& options, int64_t step, bool dense, double gradient_scale, const Apply& apply) {
  const GradientRule gradient_of{static_cast<float>(gradient_scale), static_cast<float>(dense ? options.l2 : 0)};
  const auto rate = static_cast<float>(options.LearningRate(step));
  switch (options.method) {
    case OptimizerOptions::Method::kAdam: {
      AdamRule rule = MakeAdamRule(options, step, dense);
      rule.gradient_of = gradient_of;
      return apply(rule);
    }
    case OptimizerOptions::Method::kSgd:
      if (options.moments() == 0) {
        return apply(SgdRule{gradient_of, rate});
      }
      return apply(MomentumRule{gradient_of, rate, static_cast<float>(options.momentum), options.nesterov});
    case OptimizerOptions::Method::kAdagrad:
      return apply(AdagradRule{gradient_of, rate, static_cast<float>(options.epsilon)});
  }
}

// Trains `size` parameters that lie in one piece, and remembers their moments. Steps are those of torch::optim::Adam,
// AdamW, SGD and Adagrad. Not thread-safe.
class ParameterOptimizer {
 public:
  // Throws std::bad_alloc if the moments' memory cannot be had.
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
