// What follows once a batch's gradients have left, and the evaluation between epochs.
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "common/evaluation/evaluation.h"
#include "common/leakage/bounds.h"
#include "common/status/status_macros.h"
#include "label_party/session/trainer.h"

namespace splitveil {
namespace {

std::string Describe(const GateCounts& counts) {
  return absl::StrJoin(counts, ", ", [](std::string* out, const auto& count) {
    absl::StrAppend(out, count.second, " ", GateActionName(count.first));
  });
}

}  // namespace

absl::Status Trainer::Audit(const Pending& pending) {
  Matrix left;
  if (parts_.auditor->Reads(pending.row.step)) {
    // What is audited is decoded from the bytes that left, so that rounding on the wire is part of what is measured.
    left = Matrix::ToOverwrite(pending.row.examples, parts_.agreement.cut_width());
    if (absl::Status status = ReadGradients(pending.sent, parts_.agreement.wire_dtype(), left); !status.ok()) {
      return absl::InternalError(status.message());
    }
  }
  const ProtectionRow& protection = pending.protection;
  return parts_.auditor->AuditRelease({left,
                                       pending.clean,
                                       pending.activations,
                                       {protection.lambda1_neg, protection.lambda2_neg},
                                       {protection.lambda1_pos, protection.lambda2_pos},
                                       protection.sum_kl,
                                       result_.cumulative_sum_kl});
}

void Trainer::Count(const Pending& pending) {
  const StepRow& row = pending.row;
  result_.steps = ++step_;
  result_.trained_examples += row.examples;
  result_.epoch_loss_sum += row.loss * static_cast<double>(row.examples);
  result_.epoch_examples += row.examples;
  result_.train_log_loss = result_.epoch_loss_sum / static_cast<double>(result_.epoch_examples);
  result_.train_seconds += row.seconds;
  result_.bytes_sent += row.bytes_sent;
  result_.bytes_received += row.bytes_received;
  if (pending.released()) {
    result_.sum_kls.push_back(pending.protection.sum_kl);
    result_.auc_bounds.push_back(pending.protection.auc_bound);
  }
}

absl::Status Trainer::RecordAccount(int64_t epoch) {
  std::string account = absl::StrFormat(
      "after epoch %d: an adversary that remembers every release of an example has an AUC of at most "
      "%.4f (Gaussian classes), %.4f (Theorem 1); gate: %s",
      epoch + 1, GaussianAucBound(result_.cumulative_sum_kl), AucBound(result_.cumulative_sum_kl),
      Describe(epoch_gate_));
  if (!result_.resumed_from.empty()) {
    const double with_earlier = result_.earlier_sum_kl + result_.cumulative_sum_kl;
    absl::StrAppendFormat(&account,
                          "; with the runs that this one continues, for examples that return: at most %.4f, %.4f",
                          GaussianAucBound(with_earlier), AucBound(with_earlier));
  }
  return parts_.ledger->RecordEvent("accountant", account);
}

absl::Status Trainer::Learn() {
  if (pending_ == nullptr) {
    return absl::OkStatus();
  }
  const std::unique_ptr<Pending> pending = std::move(pending_);
  StepRow& row = pending->row;
  const bool ends_epoch = row.batch + 1 == batches_per_epoch();
  absl::Status status = parts_.model->Update();
  stopwatch_.Lap(&StepTimeRow::update);
  if (status.ok() && pending->released()) {
    status = Audit(*pending);
  }
  if (status.ok() && ends_epoch) {
    status = parts_.auditor->FinishEpoch(static_cast<uint32_t>(row.epoch));
  }
  if (!status.ok()) {
    return status;
  }
  stopwatch_.Lap(&StepTimeRow::audit);
  const StepTimeRow times = stopwatch_.Finish(row);
  Count(*pending);
  status.Update(parts_.ledger->Record(row));
  status.Update(parts_.ledger->Record(times));
  status.Update(parts_.ledger->Record(pending->protection));
  if (ends_epoch) {
    status.Update(RecordAccount(row.epoch));
  }
  stopwatch_.Lap(&StepTimeRow::audit);
  GatherNext(row);
  stopwatch_.Lap(&StepTimeRow::data);
  return status;
}

absl::Status Trainer::Evaluate(uint32_t batch, ConstMatrixView activations, std::vector<float>& logits) {
  const size_t first = static_cast<size_t>(batch) * static_cast<size_t>(parts_.agreement.batch_size());
  const absl::Span<const uint32_t> positions =
      absl::MakeConstSpan(parts_.test).subspan(first, static_cast<size_t>(activations.rows()));
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<float> predicted,
                             parts_.model->Predict(activations, parts_.features->Gather(positions)));
  logits.insert(logits.end(), predicted.begin(), predicted.end());
  return absl::OkStatus();
}

absl::Status Trainer::FinishEvaluation(int64_t epoch, const std::vector<float>& logits) {
  SPLITVEIL_ASSIGN_OR_RETURN(const splitveil::Evaluation metrics, splitveil::Evaluate(logits, LabelsOf(parts_.test)));
  result_.tests.push_back({epoch, metrics.log_loss, metrics.auc, metrics.calibration_error, metrics.accuracy});
  EvaluationRow row;
  row.step = step_;
  row.split = "test";
  row.log_loss = metrics.log_loss;
  row.auc = metrics.auc;
  row.accuracy = metrics.accuracy;
  row.calibration_error = metrics.calibration_error;
  return parts_.ledger->Record(row);
}

}  // namespace splitveil
