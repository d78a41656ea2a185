// Bottom model f: features -> cut-layer activations, and the way back.
#ifndef SPLITVEIL_NONLABEL_PARTY_BOTTOM_BOTTOM_MODEL_H_
#define SPLITVEIL_NONLABEL_PARTY_BOTTOM_BOTTOM_MODEL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/dataset/feature_table.h"
#include "common/dataset/features.h"
#include "common/matrix/matrix.h"
#include "common/model/model_state.h"

#include "splitveil/v1/model.pb.h"
#include "splitveil/v1/optimizer.pb.h"

namespace splitveil {

// Gradient of the loss at one layer's output, one row an example: what the attack module sees there.
struct LayerGradient {
  std::string layer;  // Name in the model specification; the last layer is reported as "cut" only.
  Matrix gradient;    // [batch, width]: units, or channels x height x width, channel by channel, row by row.
};

class GradientExchange;

struct BottomModelOptions {
  v1::ModelSpec spec;     // The bottom half, or a whole model with `cut_layer`.
  std::string cut_layer;  // RunAgreement.cut_layer.
  v1::Optimizer optimizer;
  FeatureShape features;
  int64_t cut_width = 0;
  uint64_t seed = 0;
  // Of several workers that train it together, each with some rows of every batch (distributed_bottom_model.h); not
  // owned. Null: it trains alone.
  GradientExchange* exchange = nullptr;
};

// What training asks of a bottom model: Forward, Backward, Update for each batch, or Forward, Discard; several Forwards
// may run ahead, Backward takes the oldest. A batch may come in slices of its rows, each with its Forward and its
// Backward, and one Update. Each pending Forward keeps the parameters it was computed with, and its gradients are taken
// with those. Errors of every method, beside those it names: InvalidArgument with field, expected and found if a
// shape, row or layer name does not fit; FailedPrecondition out of turn; Internal from LibTorch. Not thread-safe.
class BottomTrainer {
 public:
  virtual ~BottomTrainer() = default;

  // Whether an example's activations may depend on the others of its batch (batch normalisation), so that a batch must
  // come whole.
  virtual bool needs_whole_batch() const = 0;
  // Activations [rows, cut_width], the model's until the slice's Discard or Update; keeps what Backward needs.
  virtual absl::StatusOr<ConstMatrixView> Forward(FeatureBatch batch) = 0;
  // Back-propagates per-example gradients [rows, cut_width] of the oldest pending Forward. Returns the per-example
  // gradients at each of `layers` ("cut" among them possible, which is `cut_gradient` itself), [rows, its width], which
  // live until Update.
  virtual absl::StatusOr<std::vector<ConstMatrixView>> Backward(ConstMatrixView cut_gradient,
                                                                absl::Span<const std::string> layers) = 0;
  // Drops the oldest pending Forward, for which no gradient comes.
  virtual absl::Status Discard() = 0;
  // One optimiser step with the gradients of the mean loss over all rows of the Backwards since the last.
  virtual absl::Status Update() = 0;
};

// What a protection of the activations asks of it between the Backwards of a batch and its Update. Errors: as
// BottomTrainer's; Unimplemented of a TorchScript file, whose graph serves one gradient.
class BottomObjectives {
 public:
  virtual ~BottomObjectives() = default;

  // Inner products of what several objectives' gradients at the cut, [batch, cut_width] each, are at the parameters:
  // [m, m] row-major. Per-example gradients, of whose mean over the batch the parameters' gradient is that. Changes
  // nothing.
  virtual absl::StatusOr<std::vector<double>> GradientProducts(absl::Span<const ConstMatrixView> cut_gradients) = 0;
  // Adds such gradients, [batch, cut_width], to those that Update learns from.
  virtual absl::Status AddGradient(ConstMatrixView cut_gradient) = 0;
};

// What evaluation asks of it.
class BottomPredictor {
 public:
  virtual ~BottomPredictor() = default;

  // Activations [rows, cut_width] without keeping anything, made with the averages of the parameters if there are
  // any (v1::Optimizer.average_decay). Errors: see BottomTrainer's.
  virtual absl::StatusOr<Matrix> Predict(const FeatureBatch& batch) = 0;
};

// What the attacks ask of it while it trains.
class BottomProbe {
 public:
  virtual ~BottomProbe() = default;

  // Names that Backward and BackpropagateHint take for `layers`, first to last; the last is "cut". Before each pooled
  // convolution "NAME.unpooled": the gradient at its activation function's output, before the pooling.
  virtual std::vector<std::string> layer_names() const = 0;
  // Back-propagates one clean cut gradient [cut_width] through example `row` of the batch that the Backwards since the
  // last Update have taken, with the parameters of its Forward: g+ at each of `layers`, [units] each. Call before
  // Update. Errors: see BottomTrainer's.
  virtual absl::StatusOr<std::vector<std::vector<float>>> BackpropagateHint(int64_t row,
                                                                            absl::Span<const float> clean_gradient,
                                                                            absl::Span<const std::string> layers) = 0;
};

// The whole of it; who needs a part takes the part. Parameters: "embedding" ([embedding_rows, dimension]; none without
// categorical columns) and, for each layer of the specification, "NAME.weight" ([units, inputs], inputs ordered as
// embeddings column by column, then numeric; of a convolution [channels, input channels, kernel, kernel]) and
// "NAME.bias". Exported as nonlabel_party: forward(numeric[, categories]) -> [batch, cut_width], numeric float32
// [batch, columns] or images [batch, channels, height, width], categories int64 [batch, columns] if there are any.
// Not thread-safe.
class BottomModel : public BottomTrainer,
                    public BottomObjectives,
                    public BottomPredictor,
                    public BottomProbe,
                    public ModelState {
 public:
  // Errors: InvalidArgument if the specification does not fit the features or the cut width.
  static absl::StatusOr<std::unique_ptr<BottomModel>> Create(const BottomModelOptions& options);
  // What Create would say, without making the tables: layer_names of the model. For before the run, so that a
  // TorchScript file is tried before the first message.
  static absl::StatusOr<std::vector<std::string>> Check(const BottomModelOptions& options);
};

}  // namespace splitveil

#endif  // SPLITVEIL_NONLABEL_PARTY_BOTTOM_BOTTOM_MODEL_H_
