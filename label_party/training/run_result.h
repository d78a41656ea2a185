// What a run came to at the label party: the figures gathered while it trains.
#ifndef SPLITVEIL_LABEL_PARTY_TRAINING_RUN_RESULT_H_
#define SPLITVEIL_LABEL_PARTY_TRAINING_RUN_RESULT_H_

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/dataset/task.h"
#include "common/leakage/summary.h"
#include "label_party/policy/release_gate.h"

namespace splitveil {

struct TestMetrics {
  int64_t epoch = -1;  // From 0; -1: before the first (RunAgreement.progressive_validation).
  // NaN where the task has no such figure.
  double log_loss = 0, auc = 0, calibration_error = 0, accuracy = 0;
  double rmse = std::numeric_limits<double>::quiet_NaN(), r_squared = rmse;

  template <typename Archive>
  void serialize(Archive& archive) {
    archive(epoch, log_loss, auc, calibration_error, accuracy, rmse, r_squared);
  }
};

// Steps by what the release gate decided.
using GateCounts = std::map<v1::GateAction, int64_t>;

// Written by StepRecorder and, where the run ends, by RunClosing; read by result_json.h.
struct RunResult {
  std::string run_id, protection;
  std::string ended;  // "completed", "stopped", "halted" or "failed", as the ledger says it; empty: goes on.
  Task task;
  int64_t aligned_examples = 0;
  std::string resumed_from;  // RUN_ID/EPOCHS of the checkpoint it started from; empty: fresh weights.
  int64_t epochs = 0;        // As agreed, or as many as were trained where the label party stopped early.
  int64_t batches_per_epoch = 1;
  int64_t steps = 0;
  int64_t trained_examples = 0;
  double epoch_loss_sum = 0;  // Sum of example losses in the epoch under way.
  int64_t epoch_examples = 0;
  double train_log_loss = 0;                   // Mean over the latest epoch.
  double train_seconds = 0;                    // Spent in training steps, evaluation left out.
  int64_t bytes_sent = 0, bytes_received = 0;  // Protobuf payload of training messages.
  // Of the steps whose gradients left: sum and latest of the divergences, bounds (the second: StepAucBound).
  double total_sum_kl = 0, latest_sum_kl = 0;
  StepSeries auc_bounds, step_auc_bounds;
  double cumulative_sum_kl = 0;               // Largest sum of divergences over the releases of one example.
  double earlier_sum_kl = 0;                  // The same of the runs before it: by its checkpoint, by its account.
  GateCounts gate;                            // Steps after the bottom model was frozen: FREEZE_BOTTOM.
  std::optional<int64_t> frozen_after_epoch;  // Whole epochs released before the gate froze the bottom model.
  // Of the test part per epoch; under progressive_validation one, before the first. NaNs where that part is empty.
  std::vector<TestMetrics> tests;
  std::vector<TestMetrics> validations;  // Of the validation part, likewise; empty where there is none.

  // By what epochs are chosen: the validation part, or without one the test part, which then flatters the choice.
  const std::vector<TestMetrics>& choosing() const { return validations.empty() ? tests : validations; }

  // All but what is known before the first step.
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(resumed_from, epochs, steps, trained_examples, epoch_loss_sum, epoch_examples, train_log_loss,
            train_seconds, bytes_sent, bytes_received, total_sum_kl, latest_sum_kl, auc_bounds, step_auc_bounds,
            cumulative_sum_kl, earlier_sum_kl, gate, frozen_after_epoch, tests, validations);
  }
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_TRAINING_RUN_RESULT_H_
