// How good predictions are: of two classes, of several, of numbers. The label party records these after each epoch.
#ifndef SPLITVEIL_COMMON_EVALUATION_EVALUATION_H_
#define SPLITVEIL_COMMON_EVALUATION_EVALUATION_H_

#include <cstdint>
#include <limits>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace splitveil {

class ConstMatrixView;

// NaN: a figure that the task does not have, or these rows do not give.
struct Evaluation {
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

  double log_loss = kNone;           // Mean of -log of the probability given to the true label, natural logarithm.
  double auc = kNone;                // Area under the ROC curve; of several classes the mean of each against the rest.
  double accuracy = kNone;           // Share of rows whose label is the predicted one.
  double calibration_error = kNone;  // Of two classes: see Evaluate.
  int64_t examples = 0;
  double rmse = kNone;       // Of a regression: root of the mean squared error.
  double r_squared = kNone;  // Of a regression: 1 - sum of squared errors / sum of squares about the targets' mean.
};

inline constexpr int64_t kCalibrationBins = 15;

// All figures of two classes. logits, labels (0 or 1): [examples]. The log loss is that of sigmoid(logit), finite for
// every logit; a label is predicted as (logit > 0).
//
// The calibration error is the adaptive one (Nixon et al., "Measuring Calibration in Deep Learning", 2019): rows sorted
// by predicted probability are cut into kCalibrationBins ranges of equal mass, as many as rows if there are fewer; it
// is the mean over the ranges of |share of positives - mean predicted probability|. With two classes the second class's
// ranges mirror the first's, so the mean over classes is this same number. Rows of equal logit count with their group's
// share of positives, so that the result does not depend on the order of the rows.
//
// Errors: InvalidArgument for no rows, different lengths, a non-finite logit or a label out of range. Thread-safe, as
// everything here.
absl::StatusOr<Evaluation> Evaluate(absl::Span<const float> logits, absl::Span<const uint8_t> labels);

// All figures of several classes, whose probabilities are softmax(logits). logits: [examples, classes]; labels:
// [examples], below classes. The AUC is the mean over the classes of which there are both members and others, each the
// exact AUC of its probability against the rest, ties counted half (Provost and Domingos, "Well-trained PETs", 2000,
// without their weights; NaN if there is no such class); the accuracy that of the class with the largest logit, the
// first of those that tie. Errors: InvalidArgument for no rows, fewer than two classes, different lengths, a non-finite
// logit or another label.
absl::StatusOr<Evaluation> EvaluateClasses(ConstMatrixView logits, absl::Span<const uint8_t> labels);

// All figures of a regression. predictions, targets: [examples]. r_squared is NaN if the targets do not vary.
// Errors: InvalidArgument for no rows, different lengths or a number that is not finite.
absl::StatusOr<Evaluation> EvaluateRegression(absl::Span<const float> predictions, absl::Span<const float> targets);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_EVALUATION_EVALUATION_H_
