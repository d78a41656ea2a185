#include "label_party/session/trainer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"

#include "common/crypto/secure_random.h"
#include "common/leakage/attack_traits.h"
#include "common/leakage/bounds.h"
#include "common/leakage/evaluation.h"
#include "common/process/exit_code.h"
#include "common/transport/tensor_codec.h"

namespace splitveil {

Trainer::Trainer(TrainerParts parts)
    : parts_(std::move(parts)), accountant_(static_cast<int64_t>(parts_.labels.size())), step_started_(absl::Now()) {
  result_.protection = parts_.protection->name();
  result_.aligned_examples = static_cast<int64_t>(parts_.labels.size());
  result_.epochs = parts_.agreement.epochs();
}

std::vector<uint32_t> Trainer::training_positions() const {
  std::vector<uint32_t> positions;
  positions.reserve(parts_.labels.size() - parts_.test.size());
  for (uint32_t position = 0; position < parts_.labels.size(); ++position) {
    if (!std::binary_search(parts_.test.begin(), parts_.test.end(), position)) {
      positions.push_back(position);
    }
  }
  return positions;
}

std::vector<uint8_t> Trainer::LabelsOf(absl::Span<const uint32_t> positions) const {
  std::vector<uint8_t> labels;
  labels.reserve(positions.size());
  for (uint32_t position : positions) {
    labels.push_back(parts_.labels[position]);
  }
  return labels;
}

void Trainer::ChooseHints(ConstMatrixView clean, ReleasedBatch& batch) const {
  std::vector<uint32_t> positives;
  for (size_t j = 0; j < batch.labels.size(); ++j) {
    if (batch.labels[j] == 1) {
      positives.push_back(static_cast<uint32_t>(j));
    }
  }
  while (!positives.empty() && batch.hint_rows.size() < kMaxHints) {
    std::swap(positives[SecureIndex(positives.size())], positives.back());
    batch.hint_rows.push_back(positives.back());
    positives.pop_back();
  }
  if (batch.hint_rows.empty()) {
    return;
  }
  const absl::Span<const float> row = clean.row(batch.hint_rows.front());
  batch.clean_positive.assign(row.begin(), row.end());
}

absl::Status Trainer::Gate(const ProtectionReport& report, const ReleaseFigures& figures, Pending& pending) {
  const GateDecision decision = parts_.gate.Decide(figures);
  ProtectionRow& row = pending.protection;
  row.step = step_;
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
  row.auc_bound = decision.auc_bound;
  row.gate = GateActionName(decision.action);
  if (decision.action == GateAction::kRelease) {
    return absl::OkStatus();
  }
  const std::string detail = absl::StrCat("step ", step_, ": ", decision.reason);
  if (absl::Status status = parts_.ledger->RecordEvent(absl::StrCat("gate_", row.gate), detail); !status.ok()) {
    return status;
  }
  if (decision.action == GateAction::kHalt) {
    (void)parts_.ledger->Record(row);
    return AsHalt(absl::ResourceExhaustedError(absl::StrCat("release gate: ", detail)));
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::CutGradients> Trainer::Encode(ConstMatrixView perturbed, const ReleasedBatch& batch) const {
  v1::CutGradients message;
  message.set_epoch(batch.epoch);
  message.set_batch(batch.batch);
  const v1::DataType dtype = parts_.agreement.wire_dtype();
  if (absl::Status status = EncodeMatrix(perturbed, dtype, *message.mutable_gradients()); !status.ok()) {
    return status;
  }
  if (parts_.agreement.audit().grant() == v1::ORACLE && !batch.hint_rows.empty()) {
    message.mutable_hint_rows()->Add(batch.hint_rows.begin(), batch.hint_rows.end());
    message.mutable_hint()->set_row(batch.hint_rows.front());
    const ConstMatrixView clean(batch.clean_positive.data(), 1, perturbed.cols());
    if (absl::Status status = EncodeMatrix(clean, dtype, *message.mutable_hint()->mutable_gradient()); !status.ok()) {
      return status;
    }
  }
  return message;
}

absl::StatusOr<v1::CutGradients> Trainer::Step(uint32_t epoch, uint32_t batch, ConstMatrixView activations,
                                               int64_t bytes_received) {
  if (batch == 0) {
    step_started_ = absl::Now();  // The evaluation between epochs is no part of a step.
    result_.epoch_loss_sum = 0;
    result_.epoch_examples = 0;
  }
  const absl::Span<const uint32_t> positions = parts_.schedule.BatchRows(epoch, batch);
  ReleasedBatch released;
  released.step = step_;
  released.epoch = epoch;
  released.batch = batch;
  released.positions.assign(positions.begin(), positions.end());
  released.labels = LabelsOf(positions);
  absl::StatusOr<HeadStep> head =
      parts_.model->ForwardBackward(activations, parts_.features->Gather(positions), released.labels);
  if (!head.ok()) {
    return absl::InternalError(head.status().message());  // Shapes are checked; what is left is a loss that diverged.
  }
  Matrix perturbed(activations.rows(), activations.cols());
  const absl::StatusOr<ProtectionReport> report =
      parts_.protection->Perturb(head->cut_gradient, released.labels, NoisePosition{epoch, batch, 0}, perturbed);
  if (!report.ok()) {
    return report.status();
  }
  ChooseHints(head->cut_gradient, released);
  const ReleaseFigures figures = {report->sum_kl, accountant_.MaxAfter(positions, report->sum_kl),
                                  parts_.gate.WantsMeasuredLeak() ? MeasuredLeak(perturbed, released) : 0.5};
  auto pending = std::make_unique<Pending>();
  if (absl::Status status = Gate(*report, figures, *pending); !status.ok()) {
    return status;
  }

  absl::StatusOr<v1::CutGradients> message = Encode(perturbed, released);
  if (!message.ok()) {
    return message;
  }
  pending->rows = activations.rows();
  pending->clean = std::move(head->cut_gradient);
  pending->activations = Matrix(activations.rows(), activations.cols());
  std::copy(activations.data(), activations.data() + activations.size(), pending->activations.data());
  pending->sent = message->gradients();
  pending->row.step = step_;
  pending->row.epoch = epoch;
  pending->row.batch = batch;
  pending->row.examples = activations.rows();
  pending->row.loss = head->mean_loss;
  pending->row.bytes_received = bytes_received;
  pending->row.bytes_sent = static_cast<int64_t>(message->ByteSizeLong());
  // From here on the bytes may leave: the release counts, whether or not the peer gets them.
  result_.remembered_sum_kl = accountant_.Release(positions, report->sum_kl);
  pending_ = std::move(pending);
  parts_.auditor->Remember(std::move(released));
  return message;
}

absl::Status Trainer::Learn() {
  if (pending_ == nullptr) {
    return absl::OkStatus();
  }
  const std::unique_ptr<Pending> pending = std::move(pending_);
  if (absl::Status status = parts_.model->Update(); !status.ok()) {
    return status;
  }
  const int64_t cut_width = parts_.agreement.cut_width();
  // What is audited is decoded from the bytes that left, so that rounding on the wire is part of what is measured.
  const absl::StatusOr<Matrix> left =
      DecodeMatrix(pending->sent, {"gradients", parts_.agreement.wire_dtype(), pending->rows, cut_width});
  if (!left.ok()) {
    return absl::InternalError(left.status().message());
  }
  absl::Status audited = parts_.auditor->AuditRelease(
      {*left, pending->clean, pending->activations, pending->protection.sum_kl, result_.remembered_sum_kl});
  if (audited.ok() && pending->row.batch + 1 == batches_per_epoch()) {
    audited = parts_.auditor->FinishEpoch(static_cast<uint32_t>(pending->row.epoch));
  }
  if (!audited.ok()) {
    return audited;
  }
  const absl::Time now = absl::Now();
  pending->row.seconds = absl::ToDoubleSeconds(now - step_started_);
  step_started_ = now;
  ++step_;

  result_.steps = step_;
  result_.trained_examples += pending->rows;
  result_.epoch_loss_sum += pending->row.loss * static_cast<double>(pending->rows);
  result_.epoch_examples += pending->rows;
  result_.train_log_loss = result_.epoch_loss_sum / static_cast<double>(result_.epoch_examples);
  result_.train_seconds += pending->row.seconds;
  result_.bytes_sent += pending->row.bytes_sent;
  result_.bytes_received += pending->row.bytes_received;
  result_.sum_kls.push_back(pending->protection.sum_kl);
  result_.auc_bounds.push_back(pending->protection.auc_bound);

  absl::Status status = parts_.ledger->Record(pending->row);
  status.Update(parts_.ledger->Record(pending->protection));
  if (pending->row.batch + 1 == batches_per_epoch()) {
    status.Update(parts_.ledger->RecordEvent(
        "accountant", absl::StrFormat("after epoch %d: an adversary that remembers every release of an example has an "
                                      "AUC of at most %.4f (Gaussian classes), %.4f (Theorem 1)",
                                      pending->row.epoch + 1, GaussianAuc(result_.remembered_sum_kl),
                                      AucBound(result_.remembered_sum_kl))));
  }
  return status;
}

absl::Status Trainer::Evaluate(uint32_t batch, ConstMatrixView activations, std::vector<float>& logits) {
  const size_t first = static_cast<size_t>(batch) * static_cast<size_t>(parts_.agreement.batch_size());
  const absl::Span<const uint32_t> positions =
      absl::MakeConstSpan(parts_.test).subspan(first, static_cast<size_t>(activations.rows()));
  const absl::StatusOr<std::vector<float>> predicted =
      parts_.model->Predict(activations, parts_.features->Gather(positions));
  if (!predicted.ok()) {
    return predicted.status();
  }
  logits.insert(logits.end(), predicted->begin(), predicted->end());
  return absl::OkStatus();
}

absl::Status Trainer::FinishEvaluation(uint32_t epoch, const std::vector<float>& logits) {
  const absl::StatusOr<splitveil::Evaluation> metrics = splitveil::Evaluate(logits, LabelsOf(parts_.test));
  if (!metrics.ok()) {
    return metrics.status();
  }
  result_.tests.push_back(
      {static_cast<int64_t>(epoch), metrics->log_loss, metrics->auc, metrics->calibration_error, metrics->accuracy});
  EvaluationRow row;
  row.step = step_;
  row.split = "test";
  row.log_loss = metrics->log_loss;
  row.auc = metrics->auc;
  row.accuracy = metrics->accuracy;
  row.calibration_error = metrics->calibration_error;
  return parts_.ledger->Record(row);
}

}  // namespace splitveil
