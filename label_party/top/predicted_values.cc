#include "label_party/top/predicted_values.h"

#include <algorithm>
#include <cmath>

namespace splitveil {
namespace {

// exp of each over their sum, less the largest first, so that none overflows.
std::vector<double> Softmax(absl::Span<const float> logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  std::vector<double> probabilities;
  double sum = 0;
  for (const float logit : logits) {
    probabilities.push_back(std::exp(logit - largest));
    sum += probabilities.back();
  }
  for (double& probability : probabilities) {
    probability /= sum;
  }
  return probabilities;
}

}  // namespace

std::vector<double> PredictedValues(const Dataset& data, absl::Span<const float> outputs) {
  switch (data.task().kind) {
    case Task::Kind::kBinary:
      return {1 / (1 + std::exp(-double{outputs[0]}))};
    case Task::Kind::kMultiClass:
      return Softmax(outputs);
    case Task::Kind::kRegression:
      break;
  }
  const v1::TargetScaling& target = data.preprocessing().target();
  // Training scales targets to [0, 1]; what lies outside would be outside the schema's range.
  return {target.minimum() + std::clamp(double{outputs[0]}, 0.0, 1.0) * (target.maximum() - target.minimum())};
}

float WatchedScore(const Dataset& data, absl::Span<const double> values) {
  return data.task().kind == Task::Kind::kMultiClass
             ? static_cast<float>(std::max_element(values.begin(), values.end()) - values.begin())
             : static_cast<float>(values[0]);
}

}  // namespace splitveil
