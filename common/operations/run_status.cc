#include "common/operations/run_status.h"

#include <utility>

#include "common/process/runtime.h"

namespace splitveil {
namespace {

constexpr char kLabelParty[] = "label_party";

}  // namespace

RunStatus::RunStatus(const char* role, SteadyClock clock) : clock_(std::move(clock)) {
  status_.set_role(role);
  status_.set_version(Version());
  status_.set_phase("waiting");
}

absl::Status RunStatus::Watch(Ledger& ledger) {
  {
    absl::MutexLock lock(&mutex_);
    figures_.emplace(status_.role() == kLabelParty, clock_);
    status_.clear_ended();
  }
  return ledger.Observe([this](const RecordedRow& row) {
    absl::MutexLock lock(&mutex_);
    figures_->Take(row);
  });
}

v1::GetStatusResponse RunStatus::Snapshot() const {
  absl::MutexLock lock(&mutex_);
  v1::GetStatusResponse status = status_;
  if (figures_.has_value()) {
    figures_->AddTo(status);
  }
  if (status.role() != kLabelParty) {  // Whatever was written there: no loss, leak or bound is this party's to show.
    status.clear_loss();
    status.clear_bound_exceeded();
    status.clear_label_party();
  }
  return status;
}

v1::RunHistory RunStatus::History() const {
  absl::MutexLock lock(&mutex_);
  return figures_.has_value() ? figures_->history() : v1::RunHistory();
}

}  // namespace splitveil
