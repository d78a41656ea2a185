#include "label_party/session/trainer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/crypto/secure_random.h"
#include "common/leakage/attack_traits.h"
#include "common/ledger/gate_action.h"
#include "common/process/exit_code.h"
#include "common/status/status_macros.h"
#include "common/transport/tensor_codec.h"
#include "label_party/protection/distance_correlation.h"
#include "label_party/protection/protection_report.h"
#include "label_party/protection/row_clipping.h"

namespace splitveil {
namespace {

ProtectionRow RowOf(int64_t step, const ProtectionReport& report, v1::GateAction action, double auc_bound) {
  return {step,
          report.method,
          report.u,
          report.v,
          report.g,
          report.p,
          report.power,
          report.lambda1_neg,
          report.lambda2_neg,
          report.lambda1_pos,
          report.lambda2_pos,
          report.sum_kl,
          auc_bound,
          action};
}

}  // namespace

Trainer::Trainer(TrainerParts parts)
    : parts_(std::move(parts)),
      guard_(std::move(parts_.protection), parts_.gate, static_cast<int64_t>(parts_.labels.size()),
             parts_.earlier_sum_kl) {
  result_.protection = guard_.protection_name();
  result_.aligned_examples = static_cast<int64_t>(parts_.labels.size());
  result_.epochs = parts_.agreement.epochs();
  result_.resumed_from = parts_.resumed_from;
  result_.earlier_sum_kl = parts_.earlier_sum_kl;
}

std::vector<uint32_t> Trainer::training_positions() const {
  std::vector<uint32_t> positions;
  for (uint32_t position = 0; position < parts_.labels.size(); ++position) {
    if (parts_.agreement.progressive_validation() ||
        !std::binary_search(parts_.test.begin(), parts_.test.end(), position)) {
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

LabelState Trainer::state() const { return {result_.earlier_sum_kl + result_.cumulative_sum_kl, guard_.moments()}; }

void Trainer::BeginEpoch() {
  result_.epoch_loss_sum = 0;
  result_.epoch_examples = 0;
  epoch_gate_.clear();
}

bool Trainer::Anticipates(absl::Span<const uint8_t> labels) const {
  return !both_classes_seen_ && std::count(labels.begin(), labels.end(), labels.front()) == labels.size();
}

Trainer::LocalBatch Trainer::GatherOwn(uint32_t epoch, uint32_t batch) {
  const absl::Span<const uint32_t> positions = parts_.schedule.BatchRows(epoch, batch);
  LocalBatch own;
  own.released.step = step_;
  own.released.epoch = epoch;
  own.released.batch = batch;
  own.released.positions.assign(positions.begin(), positions.end());
  own.released.labels = LabelsOf(positions);
  const auto rows = static_cast<int64_t>(positions.size());
  const bool whole = parts_.model->needs_whole_batch() || Anticipates(own.released.labels);
  for (const RowRange& slice : whole ? std::vector<RowRange>{{0, rows}} : Slices(rows)) {
    own.slices.push_back({slice, parts_.features->Gather(positions.subspan(slice.first, slice.rows))});
  }
  own.targets.reserve(positions.size());
  for (uint32_t position : positions) {
    own.targets.push_back(parts_.targets[position]);
  }
  return own;
}

Trainer::LocalBatch Trainer::TakeOwn(uint32_t epoch, uint32_t batch) {
  const bool gathered = next_.has_value() && next_->released.epoch == epoch && next_->released.batch == batch;
  LocalBatch own = gathered ? *std::move(next_) : GatherOwn(epoch, batch);
  next_.reset();
  return own;
}

void Trainer::GatherNext(const StepRow& row) {
  const int64_t batch = row.batch + 1;
  if (batch < batches_per_epoch()) {
    next_ = GatherOwn(static_cast<uint32_t>(row.epoch), static_cast<uint32_t>(batch));
  }
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

absl::Status Trainer::Note(const GateDecision& decision) {
  ++result_.gate[decision.action];
  // One event a kind and epoch; how many there were stands in the accountant's.
  if (++epoch_gate_[decision.action] > 1 || decision.action == v1::RELEASE) {
    return absl::OkStatus();
  }
  return parts_.ledger->RecordEvent(absl::StrCat("gate_", GateActionName(decision.action)),
                                    absl::StrCat("step ", step_, ": ", decision.reason));
}

absl::Status Trainer::AddHint(const ReleasedBatch& batch, v1::CutGradients& message) const {
  if (parts_.agreement.audit().disclosure() != v1::ORACLE || batch.hint_rows.empty()) {
    return absl::OkStatus();
  }
  message.mutable_hint_rows()->Add(batch.hint_rows.begin(), batch.hint_rows.end());
  message.mutable_hint()->set_row(batch.hint_rows.front());
  const ConstMatrixView clean(batch.clean_positive.data(), 1, static_cast<int64_t>(batch.clean_positive.size()));
  return EncodeMatrix(clean, parts_.agreement.wire_dtype(), *message.mutable_hint()->mutable_gradient());
}

absl::Status Trainer::Encode(ConstMatrixView gradients, const ReleasedBatch& batch, size_t slices,
                             SharedGradients& messages) const {
  const std::vector<RowRange> ranges = Slices(gradients.rows());
  for (size_t i = messages.size(); i < slices; ++i) {
    absl::StatusOr<v1::CutGradients> message =
        GradientsMessage(batch.epoch, batch.batch, gradients, ranges[i], parts_.agreement.wire_dtype());
    absl::Status status = message.status();
    if (status.ok() && i + 1 == ranges.size()) {
      status = AddHint(batch, *message);
    }
    if (!status.ok()) {
      return status;
    }
    messages.push_back(std::make_shared<const v1::CutGradients>(*std::move(message)));
  }
  return absl::OkStatus();
}

void Trainer::Clip(Matrix& gradients) const {
  if (parts_.clip_cut_gradients > 0) {
    ClipRows(parts_.clip_cut_gradients, gradients);
  }
}

absl::Status Trainer::PrimeWithOtherClass(const InboundBatch& coming) {
  const std::vector<uint8_t>& own_labels = coming.own.released.labels;
  if (!Anticipates(own_labels)) {
    both_classes_seen_ = true;
    return absl::OkStatus();
  }
  const size_t rows = own_labels.size();
  Matrix gradients(2 * coming.activations.rows(), coming.activations.cols());
  std::vector<uint8_t> labels(2 * rows);
  for (uint8_t label : {0, 1}) {
    std::fill_n(labels.begin() + label * rows, rows, label);
    const absl::StatusOr<Matrix> probed =
        parts_.model->ProbeCutGradient(coming.activations, coming.own.slices.front().features,
                                       absl::MakeConstSpan(labels).subspan(label * rows, rows));
    if (!probed.ok()) {
      return absl::InternalError(probed.status().message());
    }
    gradients.SetBlock(label * probed->rows(), *probed);
  }
  Clip(gradients);
  return guard_.PrimeMoments(gradients, labels);
}

absl::Status Trainer::Differentiate(const LocalSlice& slice, InboundBatch& coming) {
  const auto [first, rows] = slice.rows;
  const absl::StatusOr<HeadStep> head =
      parts_.model->ForwardBackward(coming.activations.block(first, rows), slice.features,
                                    absl::MakeConstSpan(coming.own.released.labels).subspan(first, rows),
                                    absl::MakeConstSpan(coming.own.targets).subspan(first, rows));
  stopwatch_.Lap(&StepTimeRow::backward);
  if (!head.ok()) {
    return absl::InternalError(head.status().message());  // Shapes are checked; what is left is a loss that diverged.
  }
  stopwatch_.Move(head->forward_seconds, &StepTimeRow::backward, &StepTimeRow::forward);
  coming.clean.SetBlock(first, head->cut_gradient);
  coming.loss_sum += head->mean_loss * static_cast<double>(rows);
  return absl::OkStatus();
}

absl::Status Trainer::CompleteGradients(InboundBatch& coming) const {
  if (parts_.distance_correlation_weight > 0) {
    absl::Status status = AddDistanceCorrelationGradient(parts_.distance_correlation_weight, coming.activations,
                                                         coming.own.targets, coming.clean);
    if (!status.ok()) {
      return absl::InternalError(status.message());
    }
  }
  Clip(coming.clean);
  return absl::OkStatus();
}

bool Trainer::AnswersSliceBySlice() const {
  return !frozen() && guard_.is_passthrough() && parts_.distance_correlation_weight == 0 &&
         parts_.clip_cut_gradients == 0;
}

absl::Status Trainer::Release(ConstMatrixView clean, ReleasedBatch batch, Pending& pending) {
  ChooseHints(clean, batch);  // The measured leak needs one, too.
  SPLITVEIL_ASSIGN_OR_RETURN(const GuardedBatch guarded, guard_.Guard(clean, batch));
  const GateDecision& decision = guarded.decision;
  SPLITVEIL_RETURN_IF_ERROR(Note(decision));
  pending.protection = RowOf(step_, guarded.report, decision.action, decision.auc_bound);
  if (decision.action == v1::HALT) {
    (void)parts_.ledger->Record(pending.protection);
    return AsHalt(absl::ResourceExhaustedError(absl::StrCat("release gate: step ", step_, ": ", decision.reason)));
  }
  if (decision.action == v1::FREEZE_BOTTOM) {
    result_.frozen_after_epoch = batch.epoch;
    return absl::OkStatus();
  }
  stopwatch_.Lap(&StepTimeRow::protection);
  if (absl::Status status = Encode(guarded.gradients, batch, Slices(clean.rows()).size(), pending.sent); !status.ok()) {
    return status;
  }
  stopwatch_.Lap(&StepTimeRow::serialise);
  // From here on the bytes may leave: the release counts, whether or not the peer gets them.
  result_.cumulative_sum_kl = guard_.Account(batch, guarded.report);
  parts_.auditor->Remember(std::move(batch));
  return absl::OkStatus();
}

absl::Status Trainer::Receive(const v1::CutActivations& slice) {
  const int64_t cut_width = parts_.agreement.cut_width();
  if (!coming_.has_value()) {
    if (slice.batch() == 0) {
      BeginEpoch();
    }
    InboundBatch& coming = coming_.emplace();
    coming.own = TakeOwn(slice.epoch(), slice.batch());
    coming.due = Slices(batch_rows(slice.batch()));
    std::reverse(coming.due.begin(), coming.due.end());
    coming.activations = Matrix::ToOverwrite(batch_rows(slice.batch()), cut_width);
    coming.clean = Matrix::ToOverwrite(batch_rows(slice.batch()), cut_width);
    stopwatch_.Lap(&StepTimeRow::data);
  }
  const RowRange due = coming_->due.back();
  if (slice.first_row() != due.first) {
    return absl::InvalidArgumentError(
        absl::StrCat("activations.first_row: expected ", due.first, ", found ", slice.first_row()));
  }
  absl::Status status = DecodeInto(coming_->activations.block_values(due.first, due.rows), slice.activations(),
                                   {"activations", parts_.agreement.wire_dtype(), due.rows, cut_width});
  if (status.ok()) {
    coming_->due.pop_back();
    coming_->bytes += static_cast<int64_t>(slice.ByteSizeLong());
  }
  stopwatch_.Lap(&StepTimeRow::serialise);
  return status;
}

absl::StatusOr<SharedGradients> Trainer::Step() {
  InboundBatch& coming = *coming_;
  const auto left_before = static_cast<std::ptrdiff_t>(coming.sent.size());
  while (coming.computed < coming.own.slices.size()) {
    const LocalSlice& slice = coming.own.slices[coming.computed];
    if (slice.rows.end() > coming.received_rows()) {
      return SharedGradients(coming.sent.begin() + left_before, coming.sent.end());
    }
    if (coming.computed == 0) {
      SPLITVEIL_RETURN_IF_ERROR(PrimeWithOtherClass(coming));
      stopwatch_.Lap(&StepTimeRow::protection);
    }
    absl::Status status = Differentiate(slice, coming);
    if (status.ok() && ++coming.computed < coming.own.slices.size() && AnswersSliceBySlice()) {
      status = Encode(coming.clean, coming.own.released, coming.computed, coming.sent);
      stopwatch_.Lap(&StepTimeRow::serialise);
    }
    if (!status.ok()) {
      return status;
    }
  }
  InboundBatch complete = *std::move(coming_);
  coming_.reset();
  absl::StatusOr<SharedGradients> answer = Answer(std::move(complete));
  if (answer.ok()) {
    answer->erase(answer->begin(), answer->begin() + left_before);
  }
  return answer;
}

absl::StatusOr<SharedGradients> Trainer::Answer(InboundBatch coming) {
  SPLITVEIL_RETURN_IF_ERROR(CompleteGradients(coming));
  const uint32_t epoch = coming.own.released.epoch, batch = coming.own.released.batch;
  auto pending = std::make_unique<Pending>();
  pending->sent = std::move(coming.sent);
  if (frozen()) {
    ++result_.gate[v1::FREEZE_BOTTOM];
    ++epoch_gate_[v1::FREEZE_BOTTOM];
  } else if (absl::Status status = Release(coming.clean, std::move(coming.own.released), *pending); !status.ok()) {
    return status;
  }
  if (frozen()) {
    v1::CutGradients message;
    message.set_epoch(epoch);
    message.set_batch(batch);
    message.set_frozen(true);
    pending->sent.push_back(std::make_shared<const v1::CutGradients>(std::move(message)));
    const ProtectionReport none = EmptyReport("frozen");
    pending->protection = RowOf(step_, none, v1::FREEZE_BOTTOM, none.sum_kl);
  }
  stopwatch_.Lap(&StepTimeRow::protection);
  StepRow& row = pending->row;
  row.step = step_;
  row.epoch = epoch;
  row.batch = batch;
  row.examples = coming.activations.rows();
  row.loss = coming.loss_sum / static_cast<double>(row.examples);
  row.bytes_received = coming.bytes;
  for (const auto& message : pending->sent) {
    row.bytes_sent += static_cast<int64_t>(message->ByteSizeLong());
  }
  pending->clean = std::move(coming.clean);
  pending->activations = std::move(coming.activations);
  pending->slices = std::move(coming.own.slices);
  pending_ = std::move(pending);
  return pending_->sent;
}

}  // namespace splitveil
