#include "label_party/top/task_loss.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "common/status/status_macros.h"

namespace splitveil {
namespace {

bool Fits(const Task& task, float label) {
  switch (task.kind) {
    case Task::Kind::kBinary:
      return label == 0 || label == 1;
    case Task::Kind::kMultiClass:
      return label >= 0 && label < static_cast<float>(task.classes) && label == std::floor(label);
    case Task::Kind::kRegression:
      return std::isfinite(label);
  }
  return false;
}

absl::Status CheckLabels(const Task& task, absl::Span<const float> labels, size_t rows) {
  if (labels.size() != rows) {
    return absl::InvalidArgumentError(absl::StrCat("labels: expected ", rows, ", found ", labels.size()));
  }
  return std::all_of(labels.begin(), labels.end(), [&](float label) { return Fits(task, label); })
             ? absl::OkStatus()
             : absl::InvalidArgumentError("labels: a value is not a label of the task");
}

absl::Status CheckTargets(absl::Span<const float> targets, size_t expected) {
  if (!targets.empty() && targets.size() != expected) {
    return absl::InvalidArgumentError(absl::StrCat("targets: expected ", expected, ", found ", targets.size()));
  }
  if (!std::all_of(targets.begin(), targets.end(), [](float target) { return std::isfinite(target); })) {
    return absl::InvalidArgumentError("targets: a value is not a finite number");
  }
  return absl::OkStatus();
}

// In (0, 1): neither branch overflows.
double Sigmoid(double logit) {
  const double tail = std::exp(-std::abs(logit));
  return (logit >= 0 ? 1.0 : tail) / (1.0 + tail);
}

// Log of N(target; 1, noise^2) / N(target; 0, noise^2), of one component.
double LogLikelihoodRatio(double target, double noise) { return (target - 0.5) / (noise * noise); }

// log of the sum of e^logit.
double LogSumExp(absl::Span<const double> logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const double logit : logits) {
    sum += std::exp(logit - largest);
  }
  return largest + std::log(sum);
}

// One example.
struct Row {
  absl::Span<const float> outputs;
  double label = 0;
  absl::Span<const float> targets;  // Empty: the label.
};

// Each writes predictions and their derivatives, [outputs], and returns the loss.
double Binary(const Row& row, double noise, absl::Span<float> predictions, absl::Span<float> gradient) {
  const double logit = row.outputs[0];
  // The loss is reported against the true label in any case; only the gradient follows the noised one.
  const double probability = Sigmoid(logit);
  double target = row.targets.empty() ? row.label : row.targets[0];
  // Bayes: the posterior log-odds of label 1 are the model's own logit plus the log-likelihood ratio of the noised
  // label.
  if (!row.targets.empty() && noise > 0) {
    target = Sigmoid(logit + LogLikelihoodRatio(target, noise));
  }
  predictions[0] = static_cast<float>(probability);
  gradient[0] = static_cast<float>(probability - target);
  // -log p(label) of a logit, in a form that overflows for no logit: softplus(logit) - logit * label.
  return std::max(logit, 0.0) - logit * row.label + std::log1p(std::exp(-std::abs(logit)));
}

// All in logarithms: with many classes most probabilities are below what a float can hold.
double MultiClass(const Row& row, double noise, absl::Span<float> predictions, absl::Span<float> gradient) {
  std::vector<double> logits(row.outputs.begin(), row.outputs.end());
  const double normaliser = LogSumExp(logits);
  const auto label = static_cast<size_t>(row.label);
  const double loss = normaliser - logits[label];
  std::vector<double> targets(logits.size(), 0);
  if (row.targets.empty()) {
    targets[label] = 1;
  } else if (noise > 0) {
    std::vector<double> posterior = logits;
    for (size_t k = 0; k < posterior.size(); ++k) {
      posterior[k] += LogLikelihoodRatio(row.targets[k], noise);  // One-hot: classes differ in this component only.
    }
    const double evidence = LogSumExp(posterior);
    for (size_t k = 0; k < posterior.size(); ++k) {
      targets[k] = std::exp(posterior[k] - evidence);
    }
  } else {
    targets.assign(row.targets.begin(), row.targets.end());
  }
  for (size_t k = 0; k < logits.size(); ++k) {
    const double probability = std::exp(logits[k] - normaliser);
    predictions[k] = static_cast<float>(probability);
    gradient[k] = static_cast<float>(probability - targets[k]);
  }
  return loss;
}

double Regression(const Row& row, absl::Span<float> predictions, absl::Span<float> gradient) {
  const double prediction = row.outputs[0];
  const double error = prediction - row.label;
  predictions[0] = row.outputs[0];
  gradient[0] = static_cast<float>(prediction - (row.targets.empty() ? row.label : row.targets[0]));
  return error * error / 2;
}

double LossOfRow(const LossOptions& options, const Row& row, absl::Span<float> predictions,
                 absl::Span<float> gradient) {
  switch (options.task.kind) {
    case Task::Kind::kBinary:
      return Binary(row, options.target_noise, predictions, gradient);
    case Task::Kind::kMultiClass:
      return MultiClass(row, options.target_noise, predictions, gradient);
    case Task::Kind::kRegression:
      return Regression(row, predictions, gradient);
  }
  return std::nan("");
}

}  // namespace

absl::StatusOr<TaskLoss> LossOf(const LossOptions& options, ConstMatrixView outputs, absl::Span<const float> labels,
                                absl::Span<const float> targets) {
  const auto rows = static_cast<size_t>(outputs.rows());
  const auto width = static_cast<size_t>(options.task.outputs());
  if (outputs.cols() != options.task.outputs()) {
    return absl::InvalidArgumentError(absl::StrCat("outputs: expected ", width, ", found ", outputs.cols()));
  }
  // Checked before the labels are looked at: whether a run ends here must not depend on them.
  if (!std::all_of(outputs.values().begin(), outputs.values().end(),
                   [](float value) { return std::isfinite(value); })) {
    return absl::InternalError("outputs: expected finite numbers: the training has diverged");
  }
  SPLITVEIL_RETURN_IF_ERROR(CheckLabels(options.task, labels, rows));
  SPLITVEIL_RETURN_IF_ERROR(CheckTargets(targets, rows * width));
  TaskLoss loss;
  loss.gradient = Matrix(outputs.rows(), outputs.cols());
  loss.predictions.resize(rows * width);
  double sum = 0;
  for (size_t j = 0; j < rows; ++j) {
    const auto row = static_cast<int64_t>(j);
    const Row example = {outputs.row(row), labels[j], targets.empty() ? targets : targets.subspan(j * width, width)};
    sum +=
        LossOfRow(options, example, absl::MakeSpan(loss.predictions).subspan(j * width, width), loss.gradient.row(row));
  }
  loss.mean = sum / static_cast<double>(rows);
  return loss;
}

}  // namespace splitveil
