// What is written down of every training step of the label party.
#ifndef SPLITVEIL_LABEL_PARTY_TRAINING_STEP_RECORDER_H_
#define SPLITVEIL_LABEL_PARTY_TRAINING_STEP_RECORDER_H_

#include <algorithm>
#include <cereal/access.hpp>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "common/dataset/task.h"
#include "common/ledger/ledger.h"
#include "common/operations/run_progress.h"
#include "label_party/policy/release_gate.h"
#include "label_party/protection/gradient_protection.h"
#include "label_party/training/run_result.h"

namespace splitveil {

// One step, once its answer has left and been learnt from.
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
  // `part`: as the ledger names it; adds to `metrics`, NaNs where it is empty.
  absl::Status RecordPart(const char* part, int64_t epoch, const Task& task, const Predictions& of_part,
                          std::vector<TestMetrics>& metrics);

  RunResult result_;
  Ledger* const ledger_;
  StepStopwatch stopwatch_;
  GateCounts epoch_gate_;  // Decisions in the epoch under way.
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_TRAINING_STEP_RECORDER_H_
