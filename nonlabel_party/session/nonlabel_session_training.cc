// An epoch of training: each batch's activations leave, its gradients come back, are learnt from and attacked.
#include <cstddef>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/process/exit_code.h"
#include "common/status/status_macros.h"
#include "common/telemetry/log.h"
#include "common/transport/tensor_codec.h"
#include "nonlabel_party/session/activations_message.h"
#include "nonlabel_party/session/nonlabel_session.h"

namespace splitveil {

absl::Status NonLabelSession::TrainEpoch(uint32_t epoch) {
  SPLITVEIL_ASSIGN_OR_RETURN(std::unique_ptr<TrainingStream> stream, options_.peer->Train());
  stopwatch_.Restart();  // The evaluation between epochs is no part of a step.
  uint32_t sent = 0;
  auto to_send = static_cast<uint32_t>(batches());
  for (uint32_t received = 0; received < to_send; ++received) {
    if (StopAsked()) {
      to_send = sent;  // Answers to batches under way are still taken, so that the run ends between steps.
    }
    absl::Status status;
    while (status.ok() && sent < to_send && sent - received < options_.agreement.in_flight_batches()) {
      status = SendBatch(epoch, sent++, *stream);
    }
    if (status.code() == absl::StatusCode::kUnavailable && received + 1 < sent) {
      to_send = sent;  // The label party sends no more, but it counts what it has answered before.
      status = absl::OkStatus();
    }
    // While the label party computes: the attacks on the latest gradients, and the next rows.
    if (status.ok()) {
      status = FinishStep();
    }
    if (status.ok() && sent < to_send) {
      GatherRows(epoch, sent);
    }
    if (status.ok() && received < sent) {
      status = LearnFromNext(epoch, received, *stream);
    }
    if (status.ok() && received + 1 >= sent && sent == to_send) {
      status = FinishStep();  // No more is sent.
    }
    if (!status.ok()) {
      status.Update(RecordStep());
      // A broken stream is only the consequence of what the label party decided.
      const absl::Status verdict = status.code() == absl::StatusCode::kUnavailable ? stream->Finish() : status;
      return verdict.ok() ? status : verdict;
    }
  }
  return stream->Finish();
}

std::vector<RowRange> NonLabelSession::Computed(int64_t rows) const {
  return model_->needs_whole_batch() ? std::vector<RowRange>{{0, rows}} : Slices(rows);
}

void NonLabelSession::GatherRows(uint32_t epoch, uint32_t batch) {
  if (!gathered_.has_value() || gathered_->batch != batch) {
    gathered_ = {batch, {}};
    const absl::Span<const uint32_t> positions = schedule_->BatchRows(epoch, batch);
    for (const RowRange& rows : Computed(schedule_->batch_rows(batch))) {
      gathered_->slices.push_back(features_->Gather(positions.subspan(rows.first, rows.rows)));
    }
  }
  stopwatch_.Lap(&StepTimeRow::data);
}

absl::Status NonLabelSession::SendBatch(uint32_t epoch, uint32_t batch, TrainingStream& stream) {
  GatherRows(epoch, batch);
  const int64_t batch_rows = schedule_->batch_rows(batch);
  std::vector<FeatureBatch> slices = std::move(gathered_->slices);
  gathered_.reset();
  SentBatch& sent = in_flight_.emplace_back();
  if (reporter_->needs_activations()) {
    sent.activations = Matrix::ToOverwrite(batch_rows, options_.agreement.cut_width());
  }
  auto next = slices.begin();
  for (const RowRange& rows : Computed(batch_rows)) {
    const absl::StatusOr<ConstMatrixView> activations = model_->Forward(*std::move(next++));
    stopwatch_.Lap(&StepTimeRow::forward);
    if (!activations.ok()) {
      return activations.status();
    }
    if (reporter_->needs_activations()) {
      sent.activations.SetBlock(rows.first, *activations);
    }
    SPLITVEIL_RETURN_IF_ERROR(SendSlices(epoch, batch, rows, *activations, stream));
  }
  return absl::OkStatus();
}

absl::Status NonLabelSession::SendSlices(uint32_t epoch, uint32_t batch, const RowRange& rows,
                                         ConstMatrixView activations, TrainingStream& stream) {
  for (const RowRange& slice : Slices(schedule_->batch_rows(batch))) {
    if (slice.first < rows.first || slice.end() > rows.end()) {
      continue;
    }
    SPLITVEIL_ASSIGN_OR_RETURN(
        v1::CutActivations message,
        ActivationsMessage(run_id_, epoch, batch, activations.block(slice.first - rows.first, slice.rows),
                           options_.agreement.wire_dtype()));
    message.set_first_row(static_cast<uint32_t>(slice.first));
    stopwatch_.Lap(&StepTimeRow::serialise);
    in_flight_.back().bytes += static_cast<int64_t>(message.ByteSizeLong());
    const absl::Status status = stream.Send(message);
    stopwatch_.Lap(&StepTimeRow::wire);
    if (!status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::CutGradients> NonLabelSession::ReceiveSlice(int64_t first_row, TrainingStream& stream) {
  absl::StatusOr<v1::CutGradients> message = stream.Receive();
  stopwatch_.Lap(&StepTimeRow::wait);
  if (message.ok() &&
      (message->epoch() != row_.epoch || message->batch() != row_.batch || message->first_row() != first_row)) {
    return AsRefusal(
        absl::InvalidArgumentError(absl::StrCat("gradients: expected those of epoch ", row_.epoch, " batch ",
                                                row_.batch, " from row ", first_row, ", found others")));
  }
  if (message.ok()) {
    row_.bytes_received += static_cast<int64_t>(message->ByteSizeLong());
  }
  return message;
}

absl::Status NonLabelSession::LearnFromNext(uint32_t epoch, uint32_t batch, TrainingStream& stream) {
  row_.epoch = epoch;
  row_.batch = batch;
  row_.examples = schedule_->batch_rows(batch);
  row_.loss = std::numeric_limits<double>::quiet_NaN();  // Known to the label party alone.
  row_.bytes_sent = in_flight_.front().bytes;
  row_.bytes_received = 0;
  SPLITVEIL_ASSIGN_OR_RETURN(v1::CutGradients message, ReceiveSlice(0, stream));
  const bool frozen = frozen_ || message.frozen();
  const absl::Status status = frozen ? StayFrozen(message) : Learn(std::move(message), stream);
  in_flight_.pop_front();
  learnt_ = status.ok();
  return status;
}

absl::Status NonLabelSession::Learn(v1::CutGradients message, TrainingStream& stream) {
  const int64_t cut_width = options_.agreement.cut_width();
  received_.step = row_.step;
  received_.positions = schedule_->BatchRows(message.epoch(), message.batch());
  const std::vector<RowRange> computed = Computed(row_.examples);
  auto due = computed.begin();
  Matrix gradients = Matrix::ToOverwrite(row_.examples, cut_width);
  for (const RowRange& slice : Slices(row_.examples)) {
    if (slice.first > 0) {
      SPLITVEIL_ASSIGN_OR_RETURN(message, ReceiveSlice(slice.first, stream));
    }
    if (message.frozen() || (slice.end() < row_.examples && (message.has_hint() || message.hint_rows_size() > 0))) {
      return AsRefusal(absl::InvalidArgumentError("gradients: expected slices of one answer, its hint in the last"));
    }
    absl::Status status = DecodeInto(gradients.block_values(slice.first, slice.rows), message.gradients(),
                                     {"gradients", options_.agreement.wire_dtype(), slice.rows, cut_width});
    stopwatch_.Lap(&StepTimeRow::serialise);
    if (!status.ok()) {
      return AsRefusal(status);
    }
    if (slice.end() == due->end()) {
      status = Backpropagate(*due, gradients.block(due->first, due->rows));
      ++due;
    }
    if (!status.ok()) {
      return status;
    }
  }
  received_.message = std::move(message);
  received_.activations = std::move(in_flight_.front().activations);
  SPLITVEIL_RETURN_IF_ERROR(reporter_->TakeHint(received_));
  stopwatch_.Lap(&StepTimeRow::audit);
  const absl::Status status = model_->Update();
  stopwatch_.Lap(&StepTimeRow::update);
  return status;
}

absl::Status NonLabelSession::Backpropagate(const RowRange& rows, ConstMatrixView gradients) {
  const absl::Span<const std::string> layers = reporter_->Layers(row_.step);
  const absl::StatusOr<std::vector<ConstMatrixView>> at_layers = model_->Backward(gradients, layers);
  stopwatch_.Lap(&StepTimeRow::backward);
  if (!at_layers.ok()) {
    return at_layers.status();
  }
  for (size_t i = 0; i < layers.size(); ++i) {
    if (rows.first == 0) {
      received_.gradients.push_back({layers[i], Matrix::ToOverwrite(row_.examples, (*at_layers)[i].cols())});
    }
    received_.gradients[i].gradient.SetBlock(rows.first, (*at_layers)[i]);
  }
  stopwatch_.Lap(&StepTimeRow::audit);
  return absl::OkStatus();
}

absl::Status NonLabelSession::FinishStep() {
  if (!learnt_) {
    return absl::OkStatus();
  }
  absl::Status status = reporter_->Report(received_);
  received_ = ReceivedBatch();
  stopwatch_.Lap(&StepTimeRow::audit);
  stopwatch_.Move(reporter_->waited_seconds(), &StepTimeRow::audit, &StepTimeRow::wait);
  status.Update(RecordStep());
  return status;
}

absl::Status NonLabelSession::RecordStep() {
  if (!learnt_) {
    return absl::OkStatus();
  }
  learnt_ = false;
  const StepTimeRow times = stopwatch_.Finish(row_);
  trained_examples_ += row_.examples;
  absl::Status status = ledger_->Record(row_);
  status.Update(ledger_->Record(times));
  ++row_.step;
  progress_->Report(row_.step, trained_examples_, row_.loss, reporter_->latest());
  stopwatch_.Lap(&StepTimeRow::audit);
  return status;
}

absl::Status NonLabelSession::StayFrozen(const v1::CutGradients& message) {
  if (!message.frozen() || message.has_gradients()) {
    return AsRefusal(
        absl::InvalidArgumentError("gradients: expected none, now and in every later answer, once frozen, found some"));
  }
  if (!frozen_) {
    frozen_ = true;
    const std::string since = absl::StrCat("epoch ", message.epoch(), " batch ", message.batch());
    LogInfo("the label party's budget is spent: the bottom model is frozen from ", since);
    SPLITVEIL_RETURN_IF_ERROR(ledger_->RecordEvent("frozen", since));
  }
  for (size_t i = 0; i < Computed(row_.examples).size(); ++i) {
    SPLITVEIL_RETURN_IF_ERROR(model_->Discard());
  }
  return absl::OkStatus();
}

}  // namespace splitveil
