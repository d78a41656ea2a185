#include "common/checkpoint/checkpoint_writer.h"

#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/process/runtime.h"
#include "common/status/status_macros.h"
#include "common/telemetry/log.h"

namespace splitveil {
namespace {

// "of 2 epochs and 300 batches, in 0.012 s".
std::string Detail(const CheckpointWriter::Place& place, double seconds) {
  return absl::StrFormat("of %d epochs%s, in %.3f s", place.epochs,
                         place.batches > 0 ? absl::StrCat(" and ", place.batches, " batches") : "", seconds);
}

}  // namespace

absl::Status CheckpointWriter::Write(Place place, NamedParameters model, std::string progress, SteadyTime since) {
  // One at a time: two writers would rename each other's files.
  SPLITVEIL_RETURN_IF_ERROR(Wait());
  // Events after the checkpoint are dropped when the run resumes from it.
  SPLITVEIL_ASSIGN_OR_RETURN(const int64_t last_event, ledger_->LastEvent());
  // A copy of everything, so that training may go on while it is written.
  const auto gathered = std::make_shared<const Gathered>(
      Gathered{std::move(place), last_event, std::move(model), std::move(progress), since});
  // The first one and those between epochs are waited for: the peer relies on them, and the first shows whether the
  // disk can be written at all.
  const bool is_first = !std::exchange(has_written_, true);
  if (is_first || gathered->place.batches == 0) {
    return WriteNow(*gathered, Priority::kUsual);
  }
  try {
    under_way_ = std::async(std::launch::async, [this, own = gathered]() mutable {
      absl::Status written = WriteNow(*std::exchange(own, nullptr), Priority::kLow);  // Not to be held until Wait.
      if (!written.ok()) {  // Where the run ends for another reason, nobody else tells.
        LogWarning("a checkpoint was not written: ", written.message());
      }
      return written;
    });
  } catch (const std::system_error&) {  // No thread is to be had.
    return WriteNow(*gathered, Priority::kUsual);
  }
  return absl::OkStatus();
}

absl::Status CheckpointWriter::Wait() { return under_way_.valid() ? under_way_.get() : absl::OkStatus(); }

absl::Status CheckpointWriter::WriteNow(const Gathered& gathered, Priority priority) const {
  const Place& place = gathered.place;
  // First what it relies on, then what says that this is there.
  SPLITVEIL_RETURN_IF_ERROR(sync_ ? sync_() : absl::OkStatus());
  SPLITVEIL_RETURN_IF_ERROR(ledger_->Commit());
  if (priority == Priority::kLow) {  // Not before: a step may wait for the ledger.
    GiveWayToOtherThreads();
  }
  v1::CheckpointHeader header;
  // Only the place differs from file to file; what the party is stands in the plan's facts.
  header.set_run_id(place.run_id);
  header.set_epochs(place.epochs);
  header.set_batches(place.batches);
  header.set_kept_epochs(place.kept_epochs);
  if (place.label_party.has_value()) {
    *header.mutable_label_party() = *place.label_party;
  }
  if (plan_->facts.has_continuation()) {
    // The ledger is cut back to here on resuming: steps after the checkpoint are made, and recorded, again.
    v1::LedgerPosition& position = *header.mutable_continuation()->mutable_ledger();
    position.set_steps(place.steps);
    position.set_own_epochs(place.epochs);
    position.set_peer_epochs(place.peer_epochs);
    position.set_last_event(gathered.last_event);
  }
  SPLITVEIL_RETURN_IF_ERROR(
      plan_->Write(header, gathered.model, gathered.progress, place.kept == nullptr ? NamedParameters() : *place.kept));
  return ledger_->RecordEvent("checkpoint", Detail(place, SecondsSince(gathered.since)));
}

}  // namespace splitveil
