#include "common/model/parameter_optimizer.h"

#include <algorithm>
#include <cmath>

namespace splitveil {
namespace {

// In a large table each row is a cache miss; asking this many rows ahead lets them overlap.
constexpr size_t kPrefetchRows = 16;

// The rules of one step. `first` and `second` are the moments of the same parameters, null where there are none.
struct GradientRule {
  float scale = 1;
  float l2 = 0;

  float operator()(float gradient, float value) const { return gradient * scale + l2 * value; }
};

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

struct SgdRule {
  GradientRule gradient_of;
  float rate;

  void Apply(const float* __restrict gradient, int64_t size, float* __restrict values, float*, float*) const {
    for (int64_t i = 0; i < size; ++i) {
      values[i] -= rate * gradient_of(gradient[i], values[i]);
    }
  }
};

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
AdamRule MakeAdamRule(const OptimizerOptions& options, int64_t step, bool dense) {
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

// Calls `apply` with the rule of step `step`.
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

}  // namespace

ParameterOptimizer::ParameterOptimizer(const OptimizerOptions& options, size_t size) : options_(options) {
  const bool is_adagrad = options.method == OptimizerOptions::Method::kAdagrad;
  for (int m = 0; m < options.moments(); ++m) {
    moments_[m].assign(size, is_adagrad ? static_cast<float>(options.initial_accumulator) : 0);
  }
}

void ParameterOptimizer::StepDense(absl::Span<const absl::Span<const float>> gradients, double gradient_scale,
                                   float* values) {
  // A moment that the method has not is not touched.
  float* first = moments_[0].empty() ? values : moments_[0].data();
  float* second = moments_[1].empty() ? values : moments_[1].data();
  WithRule(options_, steps_++, /*dense=*/true, gradient_scale, [&](const auto& rule) {
    int64_t start = 0;
    for (const absl::Span<const float> piece : gradients) {
      const auto size = static_cast<int64_t>(piece.size());
      rule.Apply(piece.data(), size, values + start, first + start, second + start);
      start += size;
    }
  });
}

void ParameterOptimizer::StepRows(absl::Span<const int64_t> rows, const float* gradients, int64_t dimension,
                                  double gradient_scale, float* values) {
  // A moment that the method has not is not touched.
  float* first = moments_[0].empty() ? values : moments_[0].data();
  float* second = moments_[1].empty() ? values : moments_[1].data();
  WithRule(options_, steps_++, /*dense=*/false, gradient_scale, [&](const auto& rule) {
    for (size_t i = 0; i < rows.size(); ++i) {
      const int64_t ahead = rows[std::min(i + kPrefetchRows, rows.size() - 1)] * dimension;
      __builtin_prefetch(values + ahead, 1);
      __builtin_prefetch(first + ahead, 1);
      __builtin_prefetch(second + ahead, 1);
      const int64_t start = rows[i] * dimension;
      rule.Apply(gradients + i * dimension, dimension, values + start, first + start, second + start);
    }
  });
}

}  // namespace splitveil
