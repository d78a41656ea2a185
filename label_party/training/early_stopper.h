// When training has stopped to help: LabelPartyConfig.early_stopping.
#ifndef SPLITVEIL_LABEL_PARTY_TRAINING_EARLY_STOPPER_H_
#define SPLITVEIL_LABEL_PARTY_TRAINING_EARLY_STOPPER_H_

#include <string>
#include <utility>

#include "label_party/training/run_result.h"

#include "splitveil/v1/party.pb.h"

namespace splitveil {

// Watches the metric of the validation part, or of the test part where there is no other, epoch after epoch (Prechelt,
// Early Stopping - But When?, 1998, section 2.1). Not thread-safe.
class EarlyStopper {
 public:
  // `part`: whose metrics it is given, "validation" or "test".
  EarlyStopper(const v1::EarlyStopping& config, std::string part) : config_(config), part_(std::move(part)) {}

  // Takes the next epoch's metrics. True once `patience` epochs in a row have not improved on the best before them by
  // more than `min_delta`; a metric that is no number is no improvement.
  bool ShouldStop(const TestMetrics& metrics);

  // Why, for the ledger: "validation AUC 0.7012 of epoch 4 not bettered for 2 epochs".
  std::string Reason() const;

 private:
  double MetricOf(const TestMetrics& metrics) const;

  const v1::EarlyStopping config_;
  const std::string part_;
  TestMetrics best_;
  int epochs_without_ = 0;
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_TRAINING_EARLY_STOPPER_H_
