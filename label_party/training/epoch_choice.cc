#include "label_party/training/epoch_choice.h"

#include <cmath>

#include "absl/strings/str_format.h"

namespace splitveil {
namespace {

double MetricOf(v1::EarlyStopping::Metric metric, const TestMetrics& metrics) {
  if (metric == v1::EarlyStopping::AUC) {
    return metrics.auc;
  }
  // Of numbers: scaled to 0 to 1, since min_delta is.
  return std::isnan(metrics.rmse) ? metrics.log_loss : std::pow(metrics.rmse / metrics.target_range, 2);
}

// More is better.
double Score(v1::EarlyStopping::Metric metric, const TestMetrics& metrics) {
  return (metric == v1::EarlyStopping::LOG_LOSS ? -1 : 1) * MetricOf(metric, metrics);
}

}  // namespace

void KeptEpoch::Take(const TestMetrics& evaluated) {
  // Of numbers there is no AUC; R^2 and the squared error choose the same epoch.
  const bool is_number = !std::isnan(evaluated.rmse);
  const double score = Score(is_number ? v1::EarlyStopping::LOG_LOSS : metric_, evaluated);
  if (by_ != KeepBy::kLast && !std::isnan(score) && (best_ < 0 || score > score_)) {
    best_ = taken_;
    score_ = score;
  }
  ++taken_;
}

v1::EvaluateResponse::Kept KeptEpoch::answer() const {
  if (best_ < 0) {
    return v1::EvaluateResponse::LATEST;
  }
  return best_ + 1 == taken_ ? v1::EvaluateResponse::THESE : v1::EvaluateResponse::EARLIER;
}

bool EarlyStopper::ShouldStop(const TestMetrics& metrics) {
  // The epoch is compared with the best one and not with the one before: a slow decline is no improvement.
  const double score = Score(config_.metric(), metrics);
  // The first metric that is a number is the best so far; NaN never compares as better.
  const bool first = best_.epoch < 0 && !std::isnan(score);
  if (first || score - Score(config_.metric(), best_) > config_.min_delta()) {
    best_ = metrics;
    epochs_without_ = 0;
  } else {
    ++epochs_without_;
  }
  return epochs_without_ >= config_.patience();
}

std::string EarlyStopper::Reason() const {
  const char* metric = config_.metric() == v1::EarlyStopping::AUC ? "AUC"
                       : std::isnan(best_.rmse)                   ? "log loss"
                                                                  : "squared error";
  return best_.epoch < 0 ? absl::StrFormat("no %s %s in %d epochs", part_, metric, epochs_without_)
                         : absl::StrFormat("%s %s %.4f of epoch %d not bettered for %d epochs", part_, metric,
                                           MetricOf(config_.metric(), best_), best_.epoch + 1, epochs_without_);
}

}  // namespace splitveil
