// Top model h: cut-layer activations (and own features) -> outputs, loss, cut gradients.
#ifndef SPLITVEIL_LABEL_PARTY_TOP_TOP_MODEL_H_
#define SPLITVEIL_LABEL_PARTY_TOP_TOP_MODEL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/dataset/feature_table.h"
#include "common/dataset/features.h"
#include "common/dataset/task.h"
#include "common/matrix/matrix.h"
#include "common/model/model_state.h"

#include "splitveil/v1/model.pb.h"
#include "splitveil/v1/optimizer.pb.h"

namespace splitveil {

struct TopModelOptions {
  v1::ModelSpec spec;     // The top half, or a whole model with `cut_layer`.
  std::string cut_layer;  // RunAgreement.cut_layer.
  v1::Optimizer optimizer;
  FeatureShape features;  // The label party's own; unused if the model reads none.
  int64_t cut_width = 0;
  uint64_t seed = 0;
  // What the outputs are: a logit, one logit for each class, or a number.
  Task task;
  // Whether a file whose rows depend on each other in training is refused (TorchScriptOptions::rows_apart).
  bool rows_apart = false;
  // Whether TopStep.cut_gradient is read. If not, it may be empty.
  bool cut_gradient = true;
};

// What gradients draw the predictions to, in place of the labels.
struct TrainingTargets {
  absl::Span<const float> values;  // [rows * outputs], finite, also outside [0, 1]. Empty: the labels.
  double noise_stddev = 0;         // LossOptions.target_noise.
};

struct TopStep {
  double mean_loss = 0;  // Per example, of its label: TaskLoss.mean.
  // [rows, cut_width]: row j is dL_j/dz_j of example j's own loss, with its target for label, not divided by the batch.
  // The model's, until Update.
  ConstMatrixView cut_gradient;
  double forward_seconds = 0;  // Of the call, what the loss took; the rest went into gradients.
  // [rows * outputs] each: TaskLoss.predictions, and the derivative of each example's own loss by its outputs
  // (TaskLoss.gradient). The model's, until Update.
  absl::Span<const float> predictions, residuals;
};

// What training asks of a top model: ForwardBackward for each slice of a batch, then Update. The loss:
// task_loss.h. Errors of every method: InvalidArgument with field, expected and found if a shape does not fit;
// FailedPrecondition for an Update without gradients; Internal from LibTorch, or when the loss is not finite any more.
// Not thread-safe.
class TopTrainer {
 public:
  virtual ~TopTrainer() = default;

  // Whether an example's logit may depend on the others of its batch (batch normalisation), so that a batch must come
  // whole: a second ForwardBackward before Update is then FailedPrecondition.
  virtual bool needs_whole_batch() const = 0;
  // Loss and gradients of a batch, or of a slice of its rows: `activations` [rows, cut_width], `own` of as many rows
  // (unused if the model reads none), `labels` [rows]: 0 or 1, a class, or a number. Parameter gradients are kept
  // for Update; after an error, those of earlier slices neither.
  virtual absl::StatusOr<TopStep> ForwardBackward(ConstMatrixView activations, const FeatureBatch& own,
                                                  absl::Span<const float> labels, const TrainingTargets& targets) = 0;
  // How each output moves with the activations: d output_k / dz of each row of the ForwardBackwards since the last
  // Update, in their order, [rows, outputs * cut_width], output by output. Changes nothing. FailedPrecondition if
  // there has been no ForwardBackward.
  virtual absl::StatusOr<Matrix> OutputDirections() const = 0;
  // One optimiser step with the gradients of the mean loss over all rows of the ForwardBackwards since the last, whose
  // `activations` and `own` must still be there: what only the step needs is computed now, so that no cut gradient
  // waits for it.
  virtual absl::Status Update() = 0;
};

// What evaluation asks of it.
class TopPredictor {
 public:
  virtual ~TopPredictor() = default;

  // Outputs [batch * outputs], made with the averages of the parameters if there are any
  // (v1::Optimizer.average_decay).
  // Errors: see TopTrainer's.
  virtual absl::StatusOr<std::vector<float>> Predict(ConstMatrixView activations, const FeatureBatch& own) = 0;
};

// The whole of it; code that needs only a part takes the part. Outputs = linear(layers(activations)) [+
// linear(embeddings of own categories, own numeric columns)]; one of the layers, or the logit, may read own features
// beside the layer before it. Parameters: "NAME.weight" and "NAME.bias" of each layer of the specification and of
// "logit" (shapes as BottomModel's; own features behind the other inputs of the layer that reads them), their
// embedding, "own.embedding", and, with a wide part, "wide", whose embedding is "wide.embedding". Exported as
// label_party: forward(z[, numeric[, categories]]) -> logits, z float32 [batch, cut_width]; numeric and categories, the
// own features, if the model reads them. Not thread-safe.
class TopModel : public TopTrainer, public TopPredictor, public ModelState {
 public:
  // Errors: InvalidArgument if the specification does not fit the features or the cut width.
  static absl::StatusOr<std::unique_ptr<TopModel>> Create(const TopModelOptions& options);
  // Checks what Create checks, without making the tables, and that the model reads the features that are there. Called
  // before the run, so that a TorchScript file is tried before the first message.
  static absl::Status Check(const TopModelOptions& options);
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_TOP_TOP_MODEL_H_
