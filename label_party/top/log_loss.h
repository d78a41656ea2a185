// The loss of a top model: binary cross-entropy on its logits.
#ifndef SPLITVEIL_LABEL_PARTY_TOP_LOG_LOSS_H_
#define SPLITVEIL_LABEL_PARTY_TOP_LOG_LOSS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/matrix/matrix.h"

namespace splitveil {

struct LogLoss {
  double mean = 0;  // Nats per example: mean over the batch of -log p(label | logit).
  // [batch, 1]: derivative of each example's own loss by its logit with its target for label: p - target, the log loss
  // being linear in the label.
  Matrix gradient;
};

// `logits` [batch]; `labels` [batch] of 0 and 1; `targets` [batch], finite, or empty: the labels. Errors:
// InvalidArgument where a shape or value does not fit; Internal where the loss is not finite.
absl::StatusOr<LogLoss> BinaryCrossEntropy(absl::Span<const float> logits, absl::Span<const uint8_t> labels,
                                           absl::Span<const float> targets);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_TOP_LOG_LOSS_H_
