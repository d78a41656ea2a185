// Which epoch's weights a run keeps, and when further epochs have ceased to be better.
#ifndef SPLITVEIL_LABEL_PARTY_TRAINING_EPOCH_CHOICE_H_
#define SPLITVEIL_LABEL_PARTY_TRAINING_EPOCH_CHOICE_H_

#include <cereal/access.hpp>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "label_party/policy/label_config.h"

#include "splitveil/v1/party.pb.h"
#include "splitveil/v1/split_training.pb.h"

namespace splitveil {

// A model's figures on one part of the data.
struct TestMetrics {
  int64_t epoch = -1;  // From 0; -1: before the first (RunAgreement.progressive_validation).
  // NaN where the task has no such figure.
  double log_loss = 0, auc = 0, calibration_error = 0, accuracy = 0;
  double rmse = std::numeric_limits<double>::quiet_NaN(), r_squared = rmse;
  double target_range = 1;  // Task's: rmse is in the target's own unit.

  template <typename Archive>
  void serialize(Archive& archive) {
    archive(epoch, log_loss, auc, calibration_error, accuracy, rmse, r_squared, target_range);
  }
};

// The epoch that a run keeps, as far as it has come. Not thread-safe.
class KeptEpoch {
 public:
  KeptEpoch() = default;  // The last.
  KeptEpoch(KeepBy by, v1::EarlyStopping::Metric metric) : by_(by), metric_(metric) {}

  // The next evaluation, of the part by which it chooses. What is no number is never kept.
  void Take(const TestMetrics& evaluated);

  KeepBy by() const { return by_; }
  // Which of the evaluations taken, from 0; the latest where none was a number. At least one was taken.
  int64_t index() const { return best_ < 0 ? taken_ - 1 : best_; }
  // What the peer is told after the latest one.
  v1::EvaluateResponse::Kept answer() const;

 private:
  friend class cereal::access;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(taken_, best_, score_);
  }

  KeepBy by_ = KeepBy::kLast;
  v1::EarlyStopping::Metric metric_ = v1::EarlyStopping::AUC;
  int64_t taken_ = 0, best_ = -1;
  double score_ = 0;  // Of the best.
};

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
  const v1::EarlyStopping config_;
  const std::string part_;
  TestMetrics best_;
  int epochs_without_ = 0;
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_TRAINING_EPOCH_CHOICE_H_
