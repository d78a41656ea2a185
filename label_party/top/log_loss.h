// The loss of a top model: binary cross-entropy on its logits.
#ifndef SPLITVEIL_LABEL_PARTY_TOP_LOG_LOSS_H_
#define SPLITVEIL_LABEL_PARTY_TOP_LOG_LOSS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/matrix/matrix.h"

namespace splitveil {

struct LogLoss {
  double mean = 0;  // Nats per example: mean over the batch of -log p(label | logit).
  // [batch, 1]: derivative of each example's own loss by its logit. Of the target for label: p - target, the log loss
  // being linear in the label.
  Matrix gradient;
  std::vector<float> probabilities;  // [batch]: p(1 | logit).
};

// `logits` [batch]; `labels` [batch] of 0 and 1; `targets` [batch], finite, or empty: the labels. `target_noise` above
// 0: targets are labels with Gaussian noise of this standard deviation, and the gradient is that of their likelihood, p
// times N(target; 1, .) plus 1 - p times N(target; 0, .): p less the posterior probability of label 1. It lies in [-1,
// 1] and has mean p - label only where p is right, where p - target always has, and scatters more. Errors:
// InvalidArgument where a shape or value does not fit; Internal where the loss is not finite.
absl::StatusOr<LogLoss> BinaryCrossEntropy(absl::Span<const float> logits, absl::Span<const uint8_t> labels,
                                           absl::Span<const float> targets, double target_noise = 0);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_TOP_LOG_LOSS_H_
