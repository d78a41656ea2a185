#include "label_party/training/step_recorder.h"

#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "common/crypto/sha256.h"
#include "common/evaluation/evaluation.h"
#include "common/figures/run_figures.h"
#include "common/leakage/bounds.h"
#include "common/ledger/ledger_rows.h"
#include "common/privacy/label_privacy.h"
#include "common/status/status_macros.h"
#include "common/telemetry/log.h"
#include "common/transport/tensor_codec.h"

namespace splitveil {
namespace {

std::string Describe(const GateCounts& counts) {
  return absl::StrJoin(counts, ", ", [](std::string* out, const auto& count) {
    absl::StrAppend(out, count.second, " ", GateActionName(count.first));
  });
}

absl::StatusOr<Evaluation> EvaluateTask(const Task& task, absl::Span<const float> outputs,
                                        absl::Span<const float> labels) {
  if (task.kind == Task::Kind::kRegression) {
    return EvaluateRegression(outputs, labels);
  }
  const std::vector<uint8_t> classes(labels.begin(), labels.end());
  return task.kind == Task::Kind::kBinary
             ? Evaluate(outputs, classes)
             : EvaluateClasses({outputs.data(), static_cast<int64_t>(labels.size()), task.outputs()}, classes);
}

// NaNs where there is none to measure: figures are found by epoch, and an epoch without any would shift the rest.
absl::StatusOr<TestMetrics> MetricsOf(int64_t epoch, const Task& task, const StepRecorder::Predictions& of_part) {
  if (of_part.labels.empty()) {
    constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
    return TestMetrics{epoch, kNone, kNone, kNone, kNone};
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const Evaluation found, EvaluateTask(task, of_part.outputs, of_part.labels));
  return TestMetrics{epoch,           found.log_loss,
                     found.auc,       found.calibration_error,
                     found.accuracy,  found.rmse * task.target_range,
                     found.r_squared, task.target_range};
}

}  // namespace

StepRecorder::StepRecorder(RunResult beginnings, int64_t batches_per_epoch, Ledger* ledger)
    : result_(std::move(beginnings)), ledger_(ledger) {
  result_.batches_per_epoch = batches_per_epoch;
}

double RunResult::AucBoundWith(double earlier_sum_kl) const {
  return flip_epsilon > 0 && cumulative_sum_kl > 0 ? ComposedAucBound(earlier_sum_kl, {flip_epsilon})
                                                   : GaussianAucBound(earlier_sum_kl + cumulative_sum_kl);
}

void StepRecorder::BeginEpoch() {
  // The loss of an epoch is a weighted mean, as its last batch may be smaller.
  result_.epoch_loss_sum = 0;
  result_.epoch_examples = 0;
  epoch_gate_.clear();
}

absl::Status StepRecorder::RecordDecision(const GateDecision& decision) {
  ++result_.gate[decision.action];
  // One event per kind and epoch; how many there were stands in the accountant's.
  if (++epoch_gate_[decision.action] > 1 || decision.action == v1::RELEASE) {
    return absl::OkStatus();
  }
  return ledger_->RecordEvent(absl::StrCat("gate_", GateActionName(decision.action)),
                              absl::StrCat("step ", step(), ": ", decision.reason));
}

void StepRecorder::Freeze(int64_t epoch, int64_t batch, const GateDecision& decision) {
  result_.frozen_after_epoch = epoch;
  LogInfo("the release gate has frozen the bottom model: from epoch ", epoch + 1, ", batch ", batch + 1,
          " on no gradient is sent, and the top model keeps learning; reason: ", decision.reason);
}

void StepRecorder::CountFrozenStep() {
  // Counted without an event: the freeze itself is in the ledger, and there is one such step per batch.
  ++result_.gate[v1::FREEZE_BOTTOM];
  ++epoch_gate_[v1::FREEZE_BOTTOM];
}

ProtectionRow StepRecorder::RowOf(const ProtectionReport& report, v1::GateAction action, double auc_bound) const {
  ProtectionRow row;
  row.step = step();
  row.method = report.method;
  row.u = report.u;
  row.v = report.v;
  row.g = report.g;
  row.p = report.p;
  row.power = report.power;
  row.lambda1_neg = report.lambda1_neg;
  row.lambda2_neg = report.lambda2_neg;
  row.lambda1_pos = report.lambda1_pos;
  row.lambda2_pos = report.lambda2_pos;
  row.sum_kl = report.sum_kl;
  row.auc_bound = auc_bound;
  row.gate = action;
  return row;
}

// An answer is sent before its step is recorded, slices without noise before the batch is whole. If the run ends
// between the two, or goes back, only this event says so: it must survive a kill.
absl::Status StepRecorder::RecordFirstSlice() {
  if (std::exchange(result_.first_slice_sent, true)) {
    return absl::OkStatus();
  }
  absl::Status recorded = ledger_->RecordEvent(kFirstSliceSent, "gradients are sent before the step is recorded");
  recorded.Update(ledger_->Commit());
  return recorded;
}

absl::Status StepRecorder::RecordStep(StepRecord record) {
  // Also sets row.seconds, which Count adds up.
  const StepTimeRow times = stopwatch_.Finish(record.row);
  Count(record);
  absl::Status status = ledger_->Record(record.row);
  status.Update(ledger_->Record(times));
  status.Update(ledger_->Record(record.protection));
  // Once per epoch: an operator who watches the log sees what the releases add up to.
  if (record.row.batch + 1 == result_.batches_per_epoch) {
    status.Update(RecordAccount(record.row.epoch));
  }
  return status;
}

void StepRecorder::Count(const StepRecord& record) {
  const StepRow& row = record.row;
  ++result_.steps;
  result_.trained_examples += row.examples;
  result_.epoch_loss_sum += row.loss * static_cast<double>(row.examples);
  result_.epoch_examples += row.examples;
  result_.train_log_loss = result_.epoch_loss_sum / static_cast<double>(result_.epoch_examples);
  result_.train_seconds += row.seconds;
  result_.bytes_sent += row.bytes_sent;
  result_.bytes_received += row.bytes_received;
  // A frozen step discloses nothing, so it has no part in the bounds.
  if (record.released) {
    const ProtectionRow& protection = record.protection;
    result_.total_sum_kl += protection.sum_kl;
    result_.latest_sum_kl = protection.sum_kl;
    result_.auc_bounds.Add(protection.auc_bound);
    result_.step_auc_bounds.Add(StepAucBound(protection.auc_bound, protection.sum_kl));
  }
}

absl::Status StepRecorder::RecordAccount(int64_t epoch) {
  std::string account = absl::StrFormat(
      "after epoch %d: bound on the AUC of an adversary that accumulates every release of an example: %.4f (%s), %.4f "
      "(Theorem 1); gate: %s",
      epoch + 1, result_.AucBoundWith(0), IsBoundProved(result_.protection) ? "proved" : "conditional",
      AucBound(result_.cumulative_sum_kl), Describe(epoch_gate_));
  if (!result_.resumed_from.empty()) {
    const double with_earlier = result_.earlier_sum_kl + result_.cumulative_sum_kl;
    absl::StrAppendFormat(&account, "; with the runs before it, for examples that return: %.4f, %.4f",
                          result_.AucBoundWith(result_.earlier_sum_kl), AucBound(with_earlier));
  }
  return ledger_->RecordEvent("accountant", account);
}

absl::Status StepRecorder::RecordPart(const char* part, const TestMetrics& metrics, const char* kept) {
  if (std::isnan(metrics.log_loss) && std::isnan(metrics.rmse)) {
    return absl::OkStatus();
  }
  EvaluationRow row;
  row.step = step();
  row.split = part;
  row.log_loss = metrics.log_loss;
  row.auc = metrics.auc;
  row.accuracy = metrics.accuracy;
  row.calibration_error = metrics.calibration_error;
  row.rmse = metrics.rmse;
  row.r_squared = metrics.r_squared;
  row.kept = kept;
  return ledger_->Record(row);
}

absl::Status StepRecorder::RecordEvaluation(int64_t epoch, const Task& task, const Predictions& evaluated,
                                            int64_t validation_examples) {
  // Test examples come first, then those of validation (TrainTestSplit::Evaluated).
  const size_t tests = evaluated.labels.size() - static_cast<size_t>(validation_examples);
  const size_t test_outputs = tests * static_cast<size_t>(task.outputs());
  SPLITVEIL_ASSIGN_OR_RETURN(
      const TestMetrics test,
      MetricsOf(epoch, task, {evaluated.outputs.first(test_outputs), evaluated.labels.first(tests)}));
  result_.tests.push_back(test);
  if (validation_examples > 0) {
    SPLITVEIL_ASSIGN_OR_RETURN(
        const TestMetrics validation,
        MetricsOf(epoch, task, {evaluated.outputs.subspan(test_outputs), evaluated.labels.subspan(tests)}));
    result_.validations.push_back(validation);
  }
  result_.kept.Take(result_.choosing().back());
  const char* const kept = result_.kept.answer() == v1::EvaluateResponse::EARLIER ? "" : KeepName(result_.kept.by());
  SPLITVEIL_RETURN_IF_ERROR(RecordPart("test", test, kept));
  return validation_examples == 0 ? absl::OkStatus() : RecordPart("validation", result_.validations.back(), kept);
}

absl::Status StepRecorder::RecordTrainingPart(const Task& task, const Predictions& trained) {
  SPLITVEIL_ASSIGN_OR_RETURN(const TestMetrics metrics, MetricsOf(-1, task, trained));
  return RecordPart("train", metrics, "");
}

absl::Status StepRecorder::RecordOwnFeatures(const Task& task, const Predictions& tested) {
  SPLITVEIL_ASSIGN_OR_RETURN(const TestMetrics metrics, MetricsOf(-1, task, tested));
  result_.own_features.push_back(metrics);
  return RecordPart("own_features", metrics, "");
}

absl::StatusOr<Matrix> TestEvaluator::Read(const v1::CutActivations& request, const TestEvaluation& evaluation) const {
  const int64_t rows = source_->test_rows(evaluation.next_batch);
  if (rows == 0) {
    return absl::FailedPreconditionError("evaluation: expected no more test examples, found a further batch");
  }
  return DecodeMatrix(request.activations(), {"activations", wire_dtype_, rows, cut_width_, kCutMagnitudeLimit});
}

absl::Status TestEvaluator::Predict(ConstMatrixView activations, TestEvaluation& evaluation) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<float> predicted,
                             model_->Predict(activations, source_->TestFeatures(evaluation.next_batch)));
  evaluation.outputs.insert(evaluation.outputs.end(), predicted.begin(), predicted.end());
  // A chain over the batches: the journal compares whole evaluations by it.
  Sha256Hasher digest;
  digest.Update(AsBytes(evaluation.activations));
  digest.Update(
      {reinterpret_cast<const char*>(activations.data()), static_cast<size_t>(activations.size()) * sizeof(float)});
  evaluation.activations = digest.Finish();
  ++evaluation.next_batch;
  return absl::OkStatus();
}

absl::Status TestEvaluator::Finish(int64_t epoch, const TestEvaluation& evaluation) {
  return recorder_->RecordEvaluation(epoch, source_->task(), {evaluation.outputs, source_->TestLabels()},
                                     source_->validation_examples());
}

}  // namespace splitveil
