#include "nonlabel_party/session/nonlabel_session.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "common/process/exit_code.h"
#include "common/telemetry/log.h"
#include "nonlabel_party/session/completion_attack_runner.h"

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
       {&NonLabelSession::ProgressiveValidation, &NonLabelSession::TrainEpochs, &NonLabelSession::CompleteModel}) {
    if (absl::Status status = (this->*stage)(); !status.ok() || stopped_) {
      return status;
    }
  }
  v1::CloseRequest request;
  request.set_run_id(run_id_);
  request.set_completed(true);
  return options_.peer->Close(request);
}

absl::Status NonLabelSession::ProgressiveValidation() {
  if (!options_.agreement.progressive_validation()) {
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
  if (!options_.agreement.progressive_validation()) {
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

absl::Status NonLabelSession::CompleteModel() {
  if (options_.agreement.audit().auxiliary_labels() == 0) {
    return absl::OkStatus();
  }
  CompletionAttackRunner::Options completion;
  completion.peer = options_.peer;
  completion.run_id = run_id_;
  completion.auxiliary_labels = options_.agreement.audit().auxiliary_labels();
  completion.batch_size = options_.agreement.batch_size();
  completion.bottom = BottomOptions(features_->shape());
  completion.features = features_.get();
  completion.train = train_;
  completion.stop = [this] { return StopAsked(); };
  const absl::StatusOr<int64_t> labels = CompletionAttackRunner(std::move(completion)).Report(model_->Parameters());
  if (!labels.ok()) {
    return stopped_ ? absl::OkStatus() : labels.status();
  }
  return ledger_->RecordEvent("auxiliary_labels", absl::StrCat("completed the bottom model with ", *labels, " labels"));
}

}  // namespace splitveil
