// Top model h: cut-layer activations (and own features) -> logit, loss, cut gradients.
#ifndef SPLITVEIL_LABEL_PARTY_HEAD_TOP_MODEL_H_
#define SPLITVEIL_LABEL_PARTY_HEAD_TOP_MODEL_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/dataset/feature_table.h"
#include "common/matrix/matrix.h"

#include "splitveil/v1/model.pb.h"

namespace splitveil {

struct TopModelOptions {
  v1::TopModelSpec spec;
  v1::Optimizer optimizer;
  FeatureShape features;  // The label party's own; unused without a wide part.
  int64_t cut_width = 0;
  uint64_t seed = 0;
};

struct HeadStep {
  double mean_loss = 0;  // Log-loss (nats) an example.
  Matrix cut_gradient;   // [batch, cut_width]: row j is dL_j/dz_j of example j's own loss, not divided by the batch.
};

// Not thread-safe.
class TopModel {
 public:
  static absl::StatusOr<std::unique_ptr<TopModel>> Create(const TopModelOptions& options);
  virtual ~TopModel() = default;

  // Loss and gradients of one batch; parameter gradients (of the mean loss) are kept for Update.
  virtual absl::StatusOr<HeadStep> ForwardBackward(ConstMatrixView activations, const FeatureBatch& own,
                                                   absl::Span<const uint8_t> labels) = 0;
  // One optimiser step with the gradients of the latest ForwardBackward.
  virtual absl::Status Update() = 0;
  // Logits [batch].
  virtual absl::StatusOr<std::vector<float>> Predict(ConstMatrixView activations, const FeatureBatch& own) = 0;
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_HEAD_TOP_MODEL_H_
