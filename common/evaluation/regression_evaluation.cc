#include <algorithm>
#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "common/evaluation/evaluation.h"
#include "common/matrix/matrix.h"

namespace splitveil {

absl::StatusOr<Evaluation> EvaluateRegression(absl::Span<const float> predictions, absl::Span<const float> targets) {
  if (predictions.empty() || predictions.size() != targets.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("evaluation: expected as many targets as predictions and at least one, found ", targets.size(),
                     " and ", predictions.size()));
  }
  const auto rows = static_cast<double>(targets.size());
  double mean = 0;
  for (size_t i = 0; i < targets.size(); ++i) {
    if (!std::isfinite(predictions[i]) || !std::isfinite(targets[i])) {
      return absl::InvalidArgumentError(
          "evaluation: expected finite predictions and targets, found one that is not finite");
    }
    mean += targets[i] / rows;
  }
  double errors = 0, spread = 0;
  for (size_t i = 0; i < targets.size(); ++i) {
    const double error = static_cast<double>(predictions[i]) - static_cast<double>(targets[i]);
    const double distance = static_cast<double>(targets[i]) - mean;
    errors += error * error;
    spread += distance * distance;
  }
  Evaluation evaluation;
  evaluation.examples = static_cast<int64_t>(targets.size());
  evaluation.rmse = std::sqrt(errors / rows);
  // The mean is rounded, so that equal targets may seem to lie next to it.
  const bool varies = std::any_of(targets.begin(), targets.end(), [&](float target) { return target != targets[0]; });
  evaluation.r_squared = varies ? 1 - errors / spread : Evaluation::kNone;
  return evaluation;
}

}  // namespace splitveil
