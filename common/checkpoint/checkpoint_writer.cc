#include "common/checkpoint/checkpoint_writer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/status/status_macros.h"

namespace splitveil {
namespace {

// "of 2 epochs and 300 batches, in 0.012 s".
std::string Detail(const CheckpointWriter::Place& place, double seconds) {
  return absl::StrFormat("of %d epochs%s, in %.3f s", place.epochs,
                         place.batches > 0 ? absl::StrCat(" and ", place.batches, " batches") : "", seconds);
}

}  // namespace

absl::Status CheckpointWriter::Write(Place place, NamedParameters model, std::string progress, SteadyTime since) {
  SPLITVEIL_RETURN_IF_ERROR(Wait());
  SPLITVEIL_ASSIGN_OR_RETURN(const int64_t last_event, ledger_->LastEvent());
  if (place.batches == 0) {
    return WriteNow(place, last_event, model, progress, since);
  }
  under_way_ = std::async(std::launch::async, [this, place = std::move(place), last_event, model = std::move(model),
                                               progress = std::move(progress),
                                               since] { return WriteNow(place, last_event, model, progress, since); });
  return absl::OkStatus();
}

absl::Status CheckpointWriter::Wait() { return under_way_.valid() ? under_way_.get() : absl::OkStatus(); }

absl::Status CheckpointWriter::WriteNow(const Place& place, int64_t last_event, const NamedParameters& model,
                                        const std::string& progress, SteadyTime since) const {
  // First what it relies on, then what says that this is there.
  SPLITVEIL_RETURN_IF_ERROR(sync_ ? sync_() : absl::OkStatus());
  SPLITVEIL_RETURN_IF_ERROR(ledger_->Commit());
  v1::CheckpointHeader header;
  header.set_run_id(place.run_id);
  header.set_epochs(place.epochs);
  header.set_batches(place.batches);
  if (place.label_party.has_value()) {
    *header.mutable_label_party() = *place.label_party;
  }
  if (plan_->facts.has_continuation()) {
    v1::LedgerPosition& position = *header.mutable_continuation()->mutable_ledger();
    position.set_steps(place.steps);
    position.set_own_epochs(place.epochs);
    position.set_peer_epochs(place.peer_epochs);
    position.set_last_event(last_event);
  }
  SPLITVEIL_RETURN_IF_ERROR(plan_->Write(header, model, progress));
  return ledger_->RecordEvent("checkpoint", Detail(place, SecondsSince(since)));
}

}  // namespace splitveil
