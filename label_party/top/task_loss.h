// The loss of a top model's outputs: cross-entropy, binary or of several classes, or the squared error.
#ifndef SPLITVEIL_LABEL_PARTY_TOP_TASK_LOSS_H_
#define SPLITVEIL_LABEL_PARTY_TOP_TASK_LOSS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/dataset/task.h"
#include "common/matrix/matrix.h"

namespace splitveil {

struct TaskLoss {
  // Mean over the batch: nats of -log p(label | logits), or half the squared error of a regression.
  double mean = 0;
  // [batch, outputs]: derivative of each example's own loss by its outputs, prediction - target: these losses are
  // linear in the target.
  Matrix gradient;
  // [batch, outputs]: p(1 | logit), p(class | logits), or the output itself.
  std::vector<float> predictions;
};

struct LossOptions {
  Task task;
  // Standard deviation of Gaussian noise on targets; above 0, gradients are those of their likelihood: the target gives
  // way to the posterior probability of each label, given the noised one and the model's own prediction for a prior.
  // Residuals then lie in [-1, 1] and have mean p - label only if p is right, whereas p - target always has it, and
  // scatter more. Not of a regression, which gives numbers no prior.
  double target_noise = 0;
};

// `outputs` [batch, outputs of the task]; `labels` [batch]: 0 or 1, a class, or a finite number. `targets` [batch *
// outputs], finite: what the gradients draw the predictions to; empty: the labels, a class as 1 among 0s. Errors:
// InvalidArgument if a shape or value does not fit; Internal if an output is not finite, whatever the labels:
// with finite ones, every loss is.
absl::StatusOr<TaskLoss> LossOf(const LossOptions& options, ConstMatrixView outputs, absl::Span<const float> labels,
                                absl::Span<const float> targets);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_TOP_TASK_LOSS_H_
