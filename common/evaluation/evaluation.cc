#include "common/evaluation/evaluation.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "common/leakage/leak_auc.h"
#include "common/matrix/matrix.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

absl::Status CheckPredictions(absl::Span<const float> logits, absl::Span<const uint8_t> labels) {
  if (logits.empty() || logits.size() != labels.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("evaluation: expected as many labels as logits and at least one, found ", labels.size(), " and ",
                     logits.size()));
  }
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!std::isfinite(logits[i])) {
      return absl::InvalidArgumentError(absl::StrCat("evaluation: logit ", i, " is not finite"));
    }
    if (labels[i] > 1) {
      return absl::InvalidArgumentError(absl::StrCat("evaluation: label ", i, " is neither 0 nor 1"));
    }
  }
  return absl::OkStatus();
}

double Sigmoid(double logit) {
  const double decay = std::exp(-std::abs(logit));
  return (logit >= 0 ? 1 : decay) / (1 + decay);
}

double CheckedLogLoss(absl::Span<const float> logits, absl::Span<const uint8_t> labels) {
  double sum = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    const double z = logits[i];
    sum += std::max(z, 0.0) - z * labels[i] + std::log1p(std::exp(-std::abs(z)));
  }
  return sum / static_cast<double>(logits.size());
}

double CheckedAccuracy(absl::Span<const float> logits, absl::Span<const uint8_t> labels) {
  int64_t correct = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    correct += (logits[i] > 0) == (labels[i] == 1);
  }
  return static_cast<double>(correct) / static_cast<double>(logits.size());
}

// Predicted probability minus share of positives among the rows of equal logit, ascending by logit. [rows]
std::vector<double> SortedResiduals(absl::Span<const float> logits, absl::Span<const uint8_t> labels) {
  std::vector<std::pair<float, uint8_t>> ranked;
  ranked.reserve(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    ranked.emplace_back(logits[i], labels[i]);
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<double> residuals(ranked.size());
  for (size_t begin = 0; begin < ranked.size();) {
    size_t end = begin;
    double positives = 0;
    for (; end < ranked.size() && ranked[end].first == ranked[begin].first; ++end) {
      positives += ranked[end].second;
    }
    const double residual = Sigmoid(ranked[begin].first) - positives / static_cast<double>(end - begin);
    for (; begin < end; ++begin) {
      residuals[begin] = residual;
    }
  }
  return residuals;
}

double CheckedCalibrationError(absl::Span<const float> logits, absl::Span<const uint8_t> labels, int64_t bins) {
  const std::vector<double> residuals = SortedResiduals(logits, labels);
  const int64_t rows = static_cast<int64_t>(residuals.size());
  bins = std::min(bins, rows);
  double error = 0;
  for (int64_t bin = 0; bin < bins; ++bin) {
    const int64_t begin = rows * bin / bins;
    const int64_t end = rows * (bin + 1) / bins;
    double sum = 0;
    for (int64_t i = begin; i < end; ++i) {
      sum += residuals[i];
    }
    error += std::abs(sum) / static_cast<double>(end - begin);
  }
  return error / static_cast<double>(bins);
}

}  // namespace

absl::StatusOr<Evaluation> Evaluate(absl::Span<const float> logits, absl::Span<const uint8_t> labels) {
  SPLITVEIL_RETURN_IF_ERROR(CheckPredictions(logits, labels));
  Evaluation evaluation;
  evaluation.examples = static_cast<int64_t>(logits.size());
  evaluation.log_loss = CheckedLogLoss(logits, labels);
  evaluation.auc = LeakAuc(logits, labels).value_or(std::numeric_limits<double>::quiet_NaN());
  evaluation.accuracy = CheckedAccuracy(logits, labels);
  evaluation.calibration_error = CheckedCalibrationError(logits, labels, kCalibrationBins);
  return evaluation;
}

absl::StatusOr<double> LogLoss(absl::Span<const float> logits, absl::Span<const uint8_t> labels) {
  SPLITVEIL_RETURN_IF_ERROR(CheckPredictions(logits, labels));
  return CheckedLogLoss(logits, labels);
}

absl::StatusOr<double> Accuracy(absl::Span<const float> logits, absl::Span<const uint8_t> labels) {
  SPLITVEIL_RETURN_IF_ERROR(CheckPredictions(logits, labels));
  return CheckedAccuracy(logits, labels);
}

absl::StatusOr<double> AdaptiveCalibrationError(absl::Span<const float> logits, absl::Span<const uint8_t> labels,
                                                int64_t bins) {
  SPLITVEIL_RETURN_IF_ERROR(CheckPredictions(logits, labels));
  if (bins < 1) {
    return absl::InvalidArgumentError(absl::StrCat("calibration error: expected at least one bin, found ", bins));
  }
  return CheckedCalibrationError(logits, labels, bins);
}

}  // namespace splitveil
