#include "label_party/session/run_closing.h"

#include <string>
#include <utility>

#include "common/ledger/ledger.h"

namespace splitveil {

RunClosing::RunClosing(KeepReport keep_report, const RunContext* run, RunRecords* records, const PeerPresence* presence,
                       RunEnd* end)
    : keep_report_(std::move(keep_report)), run_(run), records_(records), presence_(presence), end_(end) {}

absl::Status RunClosing::Finish(RunTraining* training) {
  if (finished_.has_value()) {
    return *finished_;
  }
  if (training != nullptr) {
    training->FinishProgress();
  }
  run_->status->Update([](v1::GetStatusResponse& status) { status.set_phase("closed"); });
  if (records_->ledger() != nullptr) {
    end_->Amend(FinishLedger(training));
  }
  run_->status->Update([this](v1::GetStatusResponse& status) { status.set_ended(end_->name()); });
  absl::Status outcome = end_->outcome();
  if (training != nullptr) {
    training->Ended(end_->name());
    if (keep_report_ != nullptr && end_->own_verdict().ok()) {
      outcome.Update(keep_report_(training->report()));
    }
    training->ShowBoundExceeded();
  }
  finished_ = outcome;
  return outcome;
}

absl::Status RunClosing::FinishLedger(RunTraining* training) {
  Ledger& ledger = *records_->ledger();
  const absl::Status& why = end_->outcome().ok() ? end_->own_verdict() : end_->outcome();
  absl::Status status = records_->FinishCheckpoint();
  status.Update(why.ok() ? absl::OkStatus() : ledger.RecordEvent("ended", why.message()));
  status.Update(presence_->RecordUnnoted());
  if (training != nullptr) {
    status.Update(training->auditor()->FinishRun());
  }
  // The training is complete and stays so where only the export fails.
  const absl::Status exported = Export(training);
  status.Update(exported.ok() ? exported : ledger.RecordEvent("export_failed", exported.message()));
  status.Update(ledger.Finish(end_->name()));
  return status.ok() ? exported : status;
}

absl::Status RunClosing::Export(const RunTraining* training) const {
  const std::string& folder = run_->config.party().export_dir();
  if (folder.empty() || !end_->completed() || !end_->own_verdict().ok() || training == nullptr) {
    return absl::OkStatus();
  }
  return training->model().ExportTo(folder);
}

}  // namespace splitveil
