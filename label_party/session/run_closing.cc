#include "label_party/session/run_closing.h"

#include <string>
#include <utility>

#include "common/ledger/ledger.h"

namespace splitveil {

RunClosing::RunClosing(KeepReport keep_report, const RunContext* run, RunRecords* records, const PeerPresence* presence,
                       RunEnd* end)
    : keep_report_(std::move(keep_report)), run_(run), records_(records), presence_(presence), end_(end) {}

absl::Status RunClosing::Finish(RunWork* work) {
  if (finished_.has_value()) {
    return *finished_;
  }
  run_->status->Update([](v1::GetStatusResponse& status) { status.set_phase("closed"); });
  if (records_->ledger() != nullptr) {
    end_->Amend(FinishLedger(work));
  }
  run_->status->Update([this](v1::GetStatusResponse& status) { status.set_ended(end_->name()); });
  absl::Status outcome = end_->outcome();
  if (work != nullptr) {
    work->Ended(end_->name());
    if (keep_report_ != nullptr && end_->own_verdict().ok()) {
      outcome.Update(keep_report_(work->report()));
    }
  }
  finished_ = outcome;
  return outcome;
}

absl::Status RunClosing::FinishLedger(RunWork* work) {
  Ledger& ledger = *records_->ledger();
  const absl::Status& why = end_->outcome().ok() ? end_->own_verdict() : end_->outcome();
  absl::Status status = records_->FinishCheckpoint();
  status.Update(why.ok() ? absl::OkStatus() : ledger.RecordEvent("ended", why.message()));
  status.Update(presence_->RecordUnnoted());
  if (work != nullptr) {
    status.Update(work->FinishRecords());
  }
  // The training is complete and stays so where only the export fails.
  const absl::Status exported = Export(work);
  status.Update(exported.ok() ? exported : ledger.RecordEvent("export_failed", exported.message()));
  status.Update(ledger.Finish(end_->name()));
  return status.ok() ? exported : status;
}

absl::Status RunClosing::Export(const RunWork* work) const {
  const std::string& folder = run_->config.party().export_dir();
  if (folder.empty() || !end_->completed() || !end_->own_verdict().ok() || work == nullptr) {
    return absl::OkStatus();
  }
  return work->model().ExportTo(folder);
}

}  // namespace splitveil
