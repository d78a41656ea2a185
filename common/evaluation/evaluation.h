// How good a binary classifier's predictions are. The label party records these after each epoch.
#ifndef SPLITVEIL_COMMON_EVALUATION_EVALUATION_H_
#define SPLITVEIL_COMMON_EVALUATION_EVALUATION_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace splitveil {

struct Evaluation {
  double log_loss = 0;           // Mean of -log of the probability given to the true label, natural logarithm.
  double auc = 0;                // Area under the ROC curve; NaN where one class is absent.
  double accuracy = 0;           // Share of rows whose label is (logit > 0).
  double calibration_error = 0;  // AdaptiveCalibrationError with kCalibrationBins.
  int64_t examples = 0;
};

inline constexpr int64_t kCalibrationBins = 15;

// All figures at once. logits, labels (0 or 1): [examples]. Errors: InvalidArgument for no rows, different lengths, a
// non-finite logit or another label. Thread-safe, as everything here.
absl::StatusOr<Evaluation> Evaluate(absl::Span<const float> logits, absl::Span<const uint8_t> labels);

// Mean log loss of sigmoid(logit), computed as max(z, 0) - z y + log(1 + exp(-|z|)): no logit is too large. Errors as
// Evaluate.
absl::StatusOr<double> LogLoss(absl::Span<const float> logits, absl::Span<const uint8_t> labels);

// Share of rows whose label is (logit > 0). Errors as Evaluate.
absl::StatusOr<double> Accuracy(absl::Span<const float> logits, absl::Span<const uint8_t> labels);

// Adaptive calibration error (Nixon et al., "Measuring Calibration in Deep Learning", 2019): rows sorted by predicted
// probability are cut into `bins` ranges of equal mass, rows [n r / bins, n (r+1) / bins); the mean over the ranges of
// |share of positives - mean predicted probability|. With two classes the second class's ranges mirror the first's, so
// the mean over classes is this same number. Rows of equal logit count with their group's share of positives, so that
// the result does not hang on the order of the rows. Fewer rows than bins: as many bins as rows.
// Errors as Evaluate, and InvalidArgument for bins < 1.
absl::StatusOr<double> AdaptiveCalibrationError(absl::Span<const float> logits, absl::Span<const uint8_t> labels,
                                                int64_t bins = kCalibrationBins);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_EVALUATION_EVALUATION_H_
