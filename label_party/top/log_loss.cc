#include "label_party/top/log_loss.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace splitveil {
namespace {

absl::Status CheckLabels(absl::Span<const uint8_t> labels, size_t rows) {
  if (labels.size() != rows) {
    return absl::InvalidArgumentError(absl::StrCat("labels: expected ", rows, ", found ", labels.size()));
  }
  for (const uint8_t label : labels) {
    if (label > 1) {
      return absl::InvalidArgumentError("labels: expected 0 or 1, found another value");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckTargets(absl::Span<const float> targets, size_t rows) {
  if (!targets.empty() && targets.size() != rows) {
    return absl::InvalidArgumentError(absl::StrCat("targets: expected ", rows, ", found ", targets.size()));
  }
  if (!std::all_of(targets.begin(), targets.end(), [](float target) { return std::isfinite(target); })) {
    return absl::InvalidArgumentError("targets: expected finite numbers, found another value");
  }
  return absl::OkStatus();
}

// In (0, 1): neither branch overflows.
double Sigmoid(double logit) {
  const double tail = std::exp(-std::abs(logit));
  return (logit >= 0 ? 1.0 : tail) / (1.0 + tail);
}

// Log of N(target; 1, noise^2) / N(target; 0, noise^2).
double LogLikelihoodRatio(double target, double noise) { return (target - 0.5) / (noise * noise); }

}  // namespace

absl::StatusOr<LogLoss> BinaryCrossEntropy(absl::Span<const float> logits, absl::Span<const uint8_t> labels,
                                           absl::Span<const float> targets, double target_noise) {
  absl::Status status = CheckLabels(labels, logits.size());
  status.Update(CheckTargets(targets, logits.size()));
  if (!status.ok()) {
    return status;
  }
  LogLoss loss;
  loss.gradient = Matrix(static_cast<int64_t>(logits.size()), 1);
  loss.probabilities.reserve(logits.size());
  double sum = 0;
  for (size_t j = 0; j < logits.size(); ++j) {
    const double logit = logits[j];
    sum += std::max(logit, 0.0) - logit * labels[j] + std::log1p(std::exp(-std::abs(logit)));
    const double probability = Sigmoid(logit);
    loss.probabilities.push_back(static_cast<float>(probability));
    double target = targets.empty() ? static_cast<double>(labels[j]) : targets[j];
    if (!targets.empty() && target_noise > 0) {
      target = Sigmoid(logit + LogLikelihoodRatio(target, target_noise));
    }
    loss.gradient.data()[j] = static_cast<float>(probability - target);
  }
  loss.mean = sum / static_cast<double>(logits.size());
  if (!std::isfinite(loss.mean)) {
    return absl::InternalError("mean loss: expected a finite number: the training has diverged");
  }
  return loss;
}

}  // namespace splitveil
