#include "common/model/parameter_optimizer.h"

namespace splitveil {

ParameterOptimizer::ParameterOptimizer(const OptimizerOptions& options, size_t size) : options_(options) {
  for (int m = 0; m < options.moments(); ++m) {
    moments_[m].assign(size, InitialMoment(options));
  }
}

void ParameterOptimizer::Step(absl::Span<const absl::Span<const float>> gradients, double gradient_scale,
                              float* values) {
  // A method without moments never touches these; they only have to point somewhere.
  float* first = moments_[0].empty() ? values : moments_[0].data();
  float* second = moments_[1].empty() ? values : moments_[1].data();
  WithRule(options_, steps_++, /*dense=*/true, gradient_scale, [&](const auto& rule) {
    // The pieces lie back to back in `values` and in the moments.
    int64_t start = 0;
    for (const absl::Span<const float> piece : gradients) {
      const auto size = static_cast<int64_t>(piece.size());
      rule.Apply(piece.data(), size, values + start, first + start, second + start);
      start += size;
    }
  });
}

}  // namespace splitveil
