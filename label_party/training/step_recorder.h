// What a run comes to while it trains: its figures, the ledger rows of its steps, and its evaluations.
#ifndef SPLITVEIL_LABEL_PARTY_TRAINING_STEP_RECORDER_H_
#define SPLITVEIL_LABEL_PARTY_TRAINING_STEP_RECORDER_H_

#include <algorithm>
#include <cereal/access.hpp>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/crypto/digest.h"
#include "common/dataset/task.h"
#include "common/leakage/summary.h"
#include "common/ledger/ledger.h"
#include "common/matrix/matrix.h"
#include "common/operations/run_status.h"
#include "label_party/policy/release_gate.h"
#include "label_party/protection/gradient_protection.h"
#include "label_party/top/top_model.h"
#include "label_party/training/batch_source.h"
#include "label_party/training/epoch_choice.h"

#include "splitveil/v1/split_training.pb.h"

namespace splitveil {

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
  double cumulative_sum_kl = 0;  // Largest sum of divergences over the releases of one example.
  double earlier_sum_kl = 0;     // The same of the runs before it: by its checkpoint, by its account.
  // Of the ledger's runs on the same labels, this one included; 1 if nothing proved bounds one of them, 0.5 of a method
  // that puts no noise on labels.
  double ledger_auc_bound = 0.5;
  double flip_epsilon = 0;                    // ProtectionReport::flip_epsilon.
  GateCounts gate;                            // Steps after the bottom model was frozen: FREEZE_BOTTOM.
  std::optional<int64_t> frozen_after_epoch;  // Whole epochs released before the gate froze the bottom model.
  // Of the test part per epoch; under progressive_validation one, before the first. NaNs where that part is empty.
  std::vector<TestMetrics> tests;
  std::vector<TestMetrics> validations;   // Of the validation part, likewise; empty where there is none.
  std::vector<TestMetrics> own_features;  // Of the test part by own features alone (own_features.h); one, or none.

  KeptEpoch kept;  // Which of them.

  // Not kept in checkpoints, but in the ledger: MayHaveReleasedBefore, and whether labels were handed out.
  bool first_slice_sent = false, gave_labels = false;

  // By what epochs are chosen: the validation part, or without one the test part, which then flatters the choice.
  const std::vector<TestMetrics>& choosing() const { return validations.empty() ? tests : validations; }

  // The AUC that all its releases of an example allow together with earlier ones, whose divergences add up to
  // `earlier_sum_kl`.
  double AucBoundWith(double earlier_sum_kl) const;

  // All but what is known before the first step.
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(resumed_from, epochs, steps, trained_examples, epoch_loss_sum, epoch_examples, train_log_loss,
            train_seconds, bytes_sent, bytes_received, total_sum_kl, latest_sum_kl, auc_bounds, step_auc_bounds,
            cumulative_sum_kl, earlier_sum_kl, gate, frozen_after_epoch, tests, validations, own_features, kept);
  }
};

// One step, after its answer was sent and learnt from.
struct StepRecord {
  StepRow row;  // Its seconds are the recorder's to fill in.
  ProtectionRow protection;
  bool released = false;  // Gradients left.
};

// Ledger rows, the step's stopwatch and the run's figures. Errors of every method: those of the ledger. Not
// thread-safe.
class StepRecorder {
 public:
  // `beginnings`: what is known of the run before its first step. `ledger`: not owned; must outlive this.
  StepRecorder(RunResult beginnings, int64_t batches_per_epoch, Ledger* ledger);

  // Of the step under way, from 0.
  int64_t step() const { return result_.steps; }
  // Where the time of the step under way goes.
  StepStopwatch& stopwatch() { return stopwatch_; }
  void Lap(StepStopwatch::Phase phase) { stopwatch_.Lap(phase); }

  // Before the first batch of an epoch.
  void BeginEpoch();
  // The gate's decision on the step under way: counted, and the first of its kind in an epoch is an event.
  absl::Status RecordDecision(const GateDecision& decision);
  // The gate halts the run in this step.
  absl::Status RecordHalt(const ProtectionRow& protection) { return ledger_->Record(protection); }
  // From this step on nothing is released, as `decision` says. `epoch`, `batch`: of the step.
  void Freeze(int64_t epoch, int64_t batch, const GateDecision& decision);
  bool frozen() const { return result_.frozen_after_epoch.has_value(); }
  // Before gradients are sent, ahead of the step that records them. The first of the run are an event, on the disk: a
  // run that ends there, or goes back to its first checkpoint, would look as if it had released nothing.
  absl::Status RecordFirstSlice();
  // A step after the one that froze.
  void CountFrozenStep();
  // After a release: the largest sum of divergences over the releases of one example.
  void SetCumulativeSumKl(double sum_kl) { result_.cumulative_sum_kl = std::max(result_.cumulative_sum_kl, sum_kl); }
  // Ends the step; with the last one of an epoch what its releases add up to is an event.
  absl::Status RecordStep(StepRecord record);

  // A model's outputs [examples * outputs] and the labels [examples].
  struct Predictions {
    absl::Span<const float> outputs, labels;
  };
  // The evaluation of `epoch` (-1: before the first): of the test part, and of the validation part, which are the last
  // `validation_examples`. Errors: as evaluation.h's, too.
  absl::Status RecordEvaluation(int64_t epoch, const Task& task, const Predictions& evaluated,
                                int64_t validation_examples);

  // What the model's answers tell of the training part.
  absl::Status RecordTrainingPart(const Task& task, const Predictions& trained);

  // What own features alone tell of the test part. Before the first step.
  absl::Status RecordOwnFeatures(const Task& task, const Predictions& tested);

  RunResult& result() { return result_; }

  // The protection table's row of the step under way.
  ProtectionRow RowOf(const ProtectionReport& report, v1::GateAction action, double auc_bound) const;

 private:
  friend class cereal::access;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(result_, epoch_gate_);
  }

  void Count(const StepRecord& record);
  absl::Status RecordAccount(int64_t epoch);
  // `part`: as the ledger names it; one that is empty has no row.
  absl::Status RecordPart(const char* part, const TestMetrics& metrics, const char* kept);

  RunResult result_;
  Ledger* const ledger_;
  StepStopwatch stopwatch_;
  GateCounts epoch_gate_;  // Decisions in the epoch under way.
};

// Outputs for the test examples of one Evaluate stream, before they count.
struct TestEvaluation {
  uint32_t epoch = 0;
  uint32_t next_batch = 0;
  bool repeated = false;       // It has counted before; nothing of this one is looked at.
  std::vector<float> outputs;  // TopPredictor::Predict of the examples so far.
  Digest activations = {};     // Of theirs: SHA-256 of that of the batches before and the latest one's.
};

// Not thread-safe.
class TestEvaluator {
 public:
  // `source`, `model`, `recorder`: not owned; must outlive this.
  TestEvaluator(int64_t cut_width, v1::DataType wire_dtype, BatchSource* source, TopPredictor* model,
                StepRecorder* recorder)
      : cut_width_(cut_width), wire_dtype_(wire_dtype), source_(source), model_(model), recorder_(recorder) {}

  // The activations of evaluation.next_batch, which `request` is said to be. Errors: FailedPrecondition where all test
  // examples have come; those of DecodeMatrix.
  absl::StatusOr<Matrix> Read(const v1::CutActivations& request, const TestEvaluation& evaluation) const;

  // Adds its outputs. Errors: those of the model.
  absl::Status Predict(ConstMatrixView activations, TestEvaluation& evaluation);

  // How many examples it has outputs for.
  int64_t examples(const TestEvaluation& evaluation) const {
    return static_cast<int64_t>(evaluation.outputs.size()) / source_->task().outputs();
  }

  // Metrics of a whole evaluation, recorded. `epoch` -1: before the first. Errors: as
  // StepRecorder::RecordEvaluation.
  absl::Status Finish(int64_t epoch, const TestEvaluation& evaluation);

 private:
  const int64_t cut_width_;
  const v1::DataType wire_dtype_;
  BatchSource* const source_;
  TopPredictor* const model_;
  StepRecorder* const recorder_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_TRAINING_STEP_RECORDER_H_
