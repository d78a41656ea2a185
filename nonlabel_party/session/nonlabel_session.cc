#include "nonlabel_party/session/nonlabel_session.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/process/exit_code.h"
#include "common/telemetry/log.h"
#include "common/transport/tensor_codec.h"
#include "nonlabel_party/session/activations_message.h"
#include "nonlabel_party/session/completion_reporter.h"

namespace splitveil {

absl::Status NonLabelSession::Run() {
  absl::Status outcome = RunToEnd();
  if (progress_ != nullptr) {
    progress_->Finish();
  }
  if (!run_id_.empty() && (stopped_ || !outcome.ok())) {
    v1::CloseRequest request;
    request.set_run_id(run_id_);
    (void)options_.peer->Close(request);  // It may be gone already.
  }
  if (stopped_) {
    LogInfo("stopped on request");
  }
  options_.status->Update([](v1::GetStatusResponse& status) { status.set_phase("closed"); });
  if (ledger_ != nullptr) {
    absl::Status status = outcome.ok() ? absl::OkStatus() : ledger_->RecordEvent("ended", outcome.message());
    // The training is complete and stays so where only the export fails.
    const absl::Status exported = outcome.ok() && !stopped_ ? Export() : absl::OkStatus();
    status.Update(exported.ok() ? exported : ledger_->RecordEvent("export_failed", exported.message()));
    status.Update(ledger_->Finish(LedgerStatus(outcome)));
    status.Update(exported);
    outcome.Update(status);
  }
  return outcome;
}

absl::Status NonLabelSession::Export() const {
  const std::string& folder = options_.config.party().export_dir();
  return folder.empty() ? absl::OkStatus() : model_->ExportTo(folder);
}

const char* NonLabelSession::LedgerStatus(const absl::Status& outcome) const {
  if (stopped_) {
    return "stopped";
  }
  if (outcome.ok()) {
    return "completed";
  }
  return IsHalt(outcome) ? "halted" : "failed";
}

bool NonLabelSession::StopAsked() {
  stopped_ = stopped_ || options_.stop();
  return stopped_;
}

absl::Status NonLabelSession::RunToEnd() {
  for (absl::Status (NonLabelSession::*stage)() :
       {&NonLabelSession::CheckModel, &NonLabelSession::Open, &NonLabelSession::Align, &NonLabelSession::Start}) {
    if (StopAsked()) {
      return absl::OkStatus();
    }
    if (absl::Status status = (this->*stage)(); !status.ok() || stopped_) {
      return status;
    }
  }
  for (absl::Status (NonLabelSession::*stage)() :
       {&NonLabelSession::PredictFirst, &NonLabelSession::TrainEpochs, &NonLabelSession::CompleteModel}) {
    if (absl::Status status = (this->*stage)(); !status.ok() || stopped_) {
      return status;
    }
  }
  v1::CloseRequest request;
  request.set_run_id(run_id_);
  request.set_completed(true);
  return options_.peer->Close(request);
}

absl::Status NonLabelSession::PredictFirst() {
  if (!options_.agreement.predict_first()) {
    return absl::OkStatus();
  }
  const absl::StatusOr<bool> stop_training = evaluator_->Evaluate(0);
  if (stop_training.ok() && *stop_training) {
    return AsRefusal(absl::InvalidArgumentError("evaluation: expected training to follow, found it stopped"));
  }
  return stop_training.status();
}

absl::Status NonLabelSession::TrainEpochs() {
  for (uint32_t epoch = 0; epoch < options_.agreement.epochs(); ++epoch) {
    if (StopAsked()) {
      return absl::OkStatus();
    }
    if (absl::Status status = TrainEpoch(epoch); !status.ok() || stopped_) {
      return status;
    }
    const absl::StatusOr<bool> stop_training = FinishEpoch(epoch);
    if (!stop_training.ok() || stopped_ || *stop_training) {
      return stop_training.status();
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> NonLabelSession::FinishEpoch(uint32_t epoch) {
  absl::StatusOr<bool> stop_training = false;
  if (!options_.agreement.predict_first()) {
    stop_training = evaluator_->Evaluate(epoch);
    if (!stop_training.ok() || stopped_) {
      return stop_training;
    }
  }
  absl::Status status = absl::OkStatus();
  if (*stop_training) {
    LogInfo("the label party stops the training early, after epoch ", epoch + 1);
    status.Update(ledger_->RecordEvent("early_stopping", absl::StrCat("after epoch ", epoch + 1)));
  }
  if (!options_.checkpoints.path.empty()) {
    status.Update(options_.checkpoints.Write(run_id_, epoch + 1, /*label_state=*/nullptr, model_->TrainingState(),
                                             /*keep_previous=*/false));
    status.Update(ledger_->RecordEvent("checkpoint", absl::StrCat("of ", epoch + 1, " epochs")));
  }
  return status.ok() ? stop_training : status;
}

absl::Status NonLabelSession::TrainEpoch(uint32_t epoch) {
  absl::StatusOr<std::unique_ptr<TrainingStream>> stream = options_.peer->Train();
  if (!stream.ok()) {
    return stream.status();
  }
  stopwatch_.Restart();  // The evaluation between epochs is no part of a step.
  uint32_t sent = 0;
  for (uint32_t received = 0; received < batches(); ++received) {
    // Answers to batches under way are still taken, so that the run ends between steps.
    const uint32_t limit = StopAsked() ? sent : static_cast<uint32_t>(batches());
    absl::Status status;
    while (status.ok() && sent < limit && sent - received < options_.agreement.in_flight_batches()) {
      status = SendBatch(epoch, sent++, **stream);
    }
    // While the label party computes: the attacks on the latest gradients, and the next rows.
    if (status.ok()) {
      status = FinishStep();
    }
    if (status.ok() && sent < limit) {
      GatherRows(epoch, sent);
    }
    if (status.ok() && received < sent) {
      status = LearnFromNext(epoch, received, **stream);
    }
    if (status.ok() && received + 1 >= sent && (stopped_ || sent == batches())) {
      status = FinishStep();  // No more is sent.
    }
    if (!status.ok()) {
      // A broken stream is only the consequence of what the label party decided.
      const absl::Status verdict = status.code() == absl::StatusCode::kUnavailable ? (*stream)->Finish() : status;
      return verdict.ok() ? status : verdict;
    }
    if (stopped_ && received + 1 >= sent) {
      break;
    }
  }
  return (*stream)->Finish();
}

void NonLabelSession::GatherRows(uint32_t epoch, uint32_t batch) {
  if (!gathered_.has_value() || gathered_->batch != batch) {
    gathered_ = {batch, features_->Gather(schedule_->BatchRows(epoch, batch))};
  }
  stopwatch_.Lap(&StepTimeRow::data);
}

absl::Status NonLabelSession::SendBatch(uint32_t epoch, uint32_t batch, TrainingStream& stream) {
  GatherRows(epoch, batch);
  absl::StatusOr<Matrix> activations = model_->Forward(std::move(gathered_->rows));
  gathered_.reset();
  stopwatch_.Lap(&StepTimeRow::forward);
  if (!activations.ok()) {
    return activations.status();
  }
  const absl::StatusOr<v1::CutActivations> message =
      ActivationsMessage(run_id_, epoch, batch, *activations, options_.agreement.wire_dtype());
  stopwatch_.Lap(&StepTimeRow::serialise);
  if (!message.ok()) {
    return message.status();
  }
  SentBatch& sent = in_flight_.emplace_back();
  if (reporter_->needs_activations()) {
    sent.activations = *std::move(activations);
  }
  sent.bytes = static_cast<int64_t>(message->ByteSizeLong());
  const absl::Status status = stream.Send(*message);
  stopwatch_.Lap(&StepTimeRow::wire);
  return status;
}

absl::Status NonLabelSession::LearnFromNext(uint32_t epoch, uint32_t batch, TrainingStream& stream) {
  absl::StatusOr<v1::CutGradients> message = stream.Receive();
  stopwatch_.Lap(&StepTimeRow::wait);
  if (!message.ok()) {
    return message.status();
  }
  if (message->epoch() != epoch || message->batch() != batch) {
    return AsRefusal(absl::InvalidArgumentError(
        absl::StrCat("gradients: expected those of epoch ", epoch, " batch ", batch, ", found others")));
  }
  row_.epoch = epoch;
  row_.batch = batch;
  row_.examples = schedule_->batch_rows(batch);
  row_.loss = std::numeric_limits<double>::quiet_NaN();  // Known to the label party alone.
  row_.bytes_sent = in_flight_.front().bytes;
  row_.bytes_received = static_cast<int64_t>(message->ByteSizeLong());
  const bool frozen = frozen_ || message->frozen();
  const absl::Status status = frozen ? StayFrozen(*message) : Learn(*std::move(message));
  in_flight_.pop_front();
  learnt_ = status.ok();
  return status;
}

absl::Status NonLabelSession::Learn(v1::CutGradients message) {
  const absl::StatusOr<Matrix> gradient =
      DecodeMatrix(message.gradients(),
                   {"gradients", options_.agreement.wire_dtype(), row_.examples, options_.agreement.cut_width()});
  stopwatch_.Lap(&StepTimeRow::serialise);
  if (!gradient.ok()) {
    return AsRefusal(gradient.status());
  }
  absl::StatusOr<std::vector<LayerGradient>> layer_gradients =
      model_->Backward(*gradient, reporter_->Layers(row_.step));
  stopwatch_.Lap(&StepTimeRow::backward);
  if (!layer_gradients.ok()) {
    return layer_gradients.status();
  }
  received_.step = row_.step;
  received_.positions = schedule_->BatchRows(message.epoch(), message.batch());
  received_.message = std::move(message);
  received_.gradients = *std::move(layer_gradients);
  received_.activations = std::move(in_flight_.front().activations);
  if (absl::Status status = reporter_->TakeHint(received_); !status.ok()) {
    return status;
  }
  stopwatch_.Lap(&StepTimeRow::audit);
  const absl::Status status = model_->Update();
  stopwatch_.Lap(&StepTimeRow::update);
  return status;
}

absl::Status NonLabelSession::FinishStep() {
  if (!learnt_) {
    return absl::OkStatus();
  }
  learnt_ = false;
  if (absl::Status status = reporter_->Report(received_); !status.ok()) {
    return status;
  }
  received_ = ReceivedBatch();
  stopwatch_.Lap(&StepTimeRow::audit);
  stopwatch_.Move(reporter_->waited_seconds(), &StepTimeRow::audit, &StepTimeRow::wait);
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
    if (absl::Status status = ledger_->RecordEvent("frozen", since); !status.ok()) {
      return status;
    }
  }
  return model_->Discard();
}

absl::Status NonLabelSession::CompleteModel() {
  if (options_.agreement.audit().auxiliary_labels() == 0) {
    return absl::OkStatus();
  }
  CompletionReporter::Options completion;
  completion.peer = options_.peer;
  completion.run_id = run_id_;
  completion.auxiliary_labels = options_.agreement.audit().auxiliary_labels();
  completion.batch_size = options_.agreement.batch_size();
  completion.bottom = BottomOptions(features_->shape());
  completion.features = features_.get();
  completion.train = train_;
  completion.stop = [this] { return StopAsked(); };
  const absl::StatusOr<int64_t> labels = CompletionReporter(std::move(completion)).Report(model_->Parameters());
  if (!labels.ok()) {
    return stopped_ ? absl::OkStatus() : labels.status();
  }
  return ledger_->RecordEvent("auxiliary_labels", absl::StrCat("completed the bottom model with ", *labels, " labels"));
}

}  // namespace splitveil
