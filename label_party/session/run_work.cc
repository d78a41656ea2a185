#include "label_party/session/run_work.h"

#include <string>
#include <utility>

#include "common/ledger/ledger.h"

namespace splitveil {

RunClosing::RunClosing(KeepReport keep_report, Run* run) : keep_report_(std::move(keep_report)), run_(run) {}

absl::Status RunClosing::Finish(RunWork* work) {
  // The peer may ask again for the answer to its Close; the ledger is finished only once.
  if (finished_.has_value()) {
    return *finished_;
  }
  run_->context.status->Update([](v1::GetStatusResponse& status) { status.set_phase("closed"); });
  if (run_->records.ledger() != nullptr) {
    // Before the outcome is read: a ledger that cannot be finished makes the run fail.
    run_->end.Amend(FinishLedger(work));
  }
  run_->context.status->Update([this](v1::GetStatusResponse& status) { status.set_ended(run_->end.name()); });
  absl::Status outcome = run_->end.outcome();
  if (work != nullptr) {
    work->Ended(run_->end.name());
    // A run on labels that are all alike has figures that mean nothing: they are not kept.
    if (keep_report_ != nullptr && run_->end.own_verdict().ok()) {
      outcome.Update(keep_report_(work->figures()));
    }
  }
  finished_ = outcome;
  return outcome;
}

absl::Status RunClosing::FinishLedger(RunWork* work) {
  Ledger& ledger = *run_->records.ledger();
  const absl::Status& why = run_->end.outcome().ok() ? run_->end.own_verdict() : run_->end.outcome();
  // The checkpoint's event goes to the ledger, so it must be done first.
  absl::Status status = run_->records.FinishCheckpoint();
  // Every step is tried even if one failed, and the first error is reported.
  status.Update(why.ok() ? absl::OkStatus() : ledger.RecordEvent("ended", why.message()));
  status.Update(run_->presence.RecordUnnoted());
  if (work != nullptr) {
    status.Update(work->FinishRecords());
  }
  // The training is complete and stays so where only the export fails.
  const absl::Status exported = Export(work);
  status.Update(exported.ok() ? exported : ledger.RecordEvent("export_failed", exported.message()));
  status.Update(ledger.Finish(run_->end.name()));
  return status.ok() ? exported : status;
}

absl::Status RunClosing::Export(const RunWork* work) const {
  const std::string& folder = run_->context.config.party().export_dir();
  if (folder.empty() || !run_->end.completed() || !run_->end.own_verdict().ok() || work == nullptr) {
    return absl::OkStatus();
  }
  return work->model().ExportTo(folder);
}

}  // namespace splitveil
