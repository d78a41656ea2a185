#include "label_party/training/early_stopper.h"

#include <cmath>

#include "absl/strings/str_format.h"

namespace splitveil {

double EarlyStopper::MetricOf(const TestMetrics& metrics) const {
  if (config_.metric() == v1::EarlyStopping::AUC) {
    return metrics.auc;
  }
  return std::isnan(metrics.rmse) ? metrics.log_loss : metrics.rmse * metrics.rmse;  // Of numbers.
}

bool EarlyStopper::ShouldStop(const TestMetrics& metrics) {
  const double sign = config_.metric() == v1::EarlyStopping::LOG_LOSS ? -1 : 1;
  const double gain = sign * (MetricOf(metrics) - MetricOf(best_));
  const bool first = best_.epoch < 0 && !std::isnan(MetricOf(metrics));
  if (first || gain > config_.min_delta()) {
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
                                           MetricOf(best_), best_.epoch + 1, epochs_without_);
}

}  // namespace splitveil
