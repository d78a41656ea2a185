#include "label_party/session/run.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"

#include "common/ledger/ledger.h"
#include "common/process/exit_code.h"
#include "common/status/status_macros.h"
#include "common/telemetry/log.h"

namespace splitveil {
namespace {

absl::Status WhatThePeerHears(RunEnd::Cause cause, const absl::Status& outcome) {
  switch (cause) {
    // Unavailable: the peer's client tries again, and the next session answers it.
    case RunEnd::Cause::kPeerStartedAgain:
      return absl::UnavailableError("the label party takes the run up again: open it once more");
    case RunEnd::Cause::kOwnFailure:
    case RunEnd::Cause::kOperatorHalt:  // The reason may depend on labels, so the peer is not told.
      return IsHalt(outcome) ? AsHalt(absl::ResourceExhaustedError("release gate: halted the run"))
                             : absl::InternalError("the label party failed; its own log says why");
    default:
      return outcome;
  }
}

constexpr int64_t kMaxInterruptionsNoted = 100;  // A peer that comes and goes must not fill the disk.

double SilenceLimitSeconds(const v1::Deadlines& deadlines, ProtocolState::State state) {
  switch (state) {
    case ProtocolState::State::kWaiting:
      return deadlines.connect_seconds();
    // Masking millions of ids takes long, but its messages come in chunks that each have a deadline.
    case ProtocolState::State::kAligning:
    case ProtocolState::State::kAligned:
      return deadlines.alignment_chunk_seconds();
    default:
      return deadlines.step_seconds();
  }
}

}  // namespace

absl::Status RunEnd::End(Cause cause, absl::Status why) {
  // Marked, so that the program exits with the code of a refusal and not of its own failure.
  if (cause == Cause::kRefused) {
    why = AsRefusal(std::move(why));
  }
  absl::Status heard = WhatThePeerHears(cause, why);
  peer_started_again_ |= cause == Cause::kPeerStartedAgain;
  // Only the first cause counts: what fails afterwards is mostly its consequence.
  if (!ended_) {
    ended_ = true;
    cause_ = cause;
    outcome_ = std::move(why);
    if (cause == Cause::kCompleted) {
      protocol_->Completed();
    } else if (IsHalt(heard)) {
      protocol_->Ended(heard);  // Every later call gets it, too: this answer may be lost.
    } else {
      protocol_->Ended();
    }
  }
  // Also for a second end: AwaitFarewell of a run that has ended stops waiting once its peer has started again.
  waiting_->Wake();
  return heard;
}

absl::Status RunEnd::EndUnlessOk(const absl::Status& status) {
  return status.ok() ? status : End(Cause::kOwnFailure, status);
}

// Otherwise a repeated Close would be answered as complete although the export or the ledger failed.
void RunEnd::Amend(const absl::Status& status) {
  if (outcome_.ok() && !status.ok()) {
    outcome_ = status;
    protocol_->Ended();
  }
}

const char* RunEnd::name() const {
  switch (cause_) {
    case Cause::kCompleted:
      return own_verdict_.ok() && outcome_.ok() ? "completed" : "failed";  // Amend may have changed the outcome.
    case Cause::kStopped:
      return "stopped";
    default:
      return IsHalt(outcome_) ? "halted" : "failed";
  }
}

PeerPresence::PeerPresence(const v1::Deadlines* deadlines, SteadyClock clock)
    : deadlines_(deadlines),
      clock_(std::move(clock)),
      last_heard_(clock_()),
      unopened_(last_heard_, absl::Seconds(deadlines->connect_seconds())) {}

void PeerPresence::RecordIn(Ledger* ledger) {
  ledger_ = ledger;
  // A ledger that fails ends the run at its next step.
  interruptions_ = std::min(ledger->CountEventsOfRun("interrupted").value_or(0), kMaxInterruptionsNoted);
  stalls_ = std::min(ledger->CountEventsOfRun("stalled").value_or(0), kMaxInterruptionsNoted);
}

void PeerPresence::Heard() {
  const SteadyTime now = clock_();
  // On the monotonic clock: a corrected wall clock must not look like a lost peer.
  const double silent = absl::ToDoubleSeconds(absl::FromChrono(now - last_heard_));
  const bool noted = interruptions_ <= kMaxInterruptionsNoted;
  // A silence within a stream that is long for this run: a paused peer or a hanging network, which leaves no other
  // trace.
  if (!connection_lost_ && streams_ > 0 && silence_.IsStall(silent) && ++stalls_ <= kMaxInterruptionsNoted) {
    const std::string detail = absl::StrFormat("%.1f s without the non-label party, the connection held", silent);
    LogInfo("the run continues after ", detail);
    ledger_->RecordEvent("stalled", detail).IgnoreError();  // As below.
  }
  if (std::exchange(connection_lost_, false) && noted) {
    const std::string detail = absl::StrFormat("%.1f s without the non-label party", silent);
    LogInfo("connected again after ", detail);
    ledger_->RecordEvent("interrupted", detail).IgnoreError();  // A ledger that fails ends the run at its next step.
  }
  last_heard_ = now;
}

void PeerPresence::ConnectionLost() {
  // Before Open no run can be interrupted, and one interruption is counted once, even if several calls notice it.
  if (ledger_ != nullptr && !connection_lost_) {
    connection_lost_ = true;
    if (++interruptions_ > kMaxInterruptionsNoted) {
      return;
    }
    LogWarning("lost the connection of the non-label party while it worked; it may come back for ",
               absl::FormatDuration(absl::Seconds(deadlines_->max_outage_seconds())));
  }
}

absl::Status PeerPresence::CheckHeard(ProtocolState::State state) {
  // A peer that never comes is mostly a wrong address, which only a person can correct.
  if (state == ProtocolState::State::kWaiting) {
    unopened_.Remind(clock_(), "the non-label party to connect and open a run");
  }
  // Without a stream, a lost connection cannot be told from a slow peer, so the longer wait applies.
  const bool between_streams = state >= ProtocolState::State::kPredicting && streams_ == 0;
  const bool may_be_lost = connection_lost_ || between_streams;
  const double patience = may_be_lost ? deadlines_->max_outage_seconds() : 0;
  const absl::Duration limit = absl::Seconds(std::max(patience, SilenceLimitSeconds(*deadlines_, state)));
  return absl::FromChrono(clock_() - last_heard_) <= limit
             ? absl::OkStatus()
             : absl::UnavailableError(absl::StrCat(
                   "the non-label party was not heard within ", absl::FormatDuration(limit),
                   connection_lost_ ? ": its connection is lost, and it made no new one" : ": it is silent"));
}

absl::Status PeerPresence::RecordUnnoted() const {
  return interruptions_ <= kMaxInterruptionsNoted
             ? absl::OkStatus()
             : ledger_->RecordEvent("interrupted", absl::StrCat(interruptions_ - kMaxInterruptionsNoted, " more"));
}

bool IsRefusal(const absl::Status& status) {
  switch (status.code()) {
    // What a malformed or untimely message gets; budget, halt and this party's own failures have other codes.
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAlreadyExists:
      return true;
    default:
      return false;
  }
}

bool IsOfLedger(const absl::Status& status) { return absl::IsInternal(status) || absl::IsDataLoss(status); }

absl::Status RefusalLog::Note(absl::string_view call, const absl::Status& status, Ledger& ledger) {
  // Own failures have their own records; this log is about what the peer sent.
  if (!IsRefusal(status)) {
    return absl::OkStatus();
  }
  if (!noted_.has_value()) {
    // A peer that interrupts the run must not get a fresh hundred.
    SPLITVEIL_ASSIGN_OR_RETURN(noted_, ledger.CountEventsOfRun("refused"));
  }
  if (*noted_ >= kMaxNoted) {
    return absl::OkStatus();
  }
  ++*noted_;
  // Some errors name their call already: it is not written twice.
  const bool says_where = absl::StartsWith(status.message(), absl::StrCat(call, ":"));
  const std::string what = OneLine(absl::StrCat(says_where ? "" : absl::StrCat(call, ": "), status.message()));
  LogWarning("refused a message of the non-label party: ", what);
  return ledger.RecordEvent("refused", what);
}

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
    if (keep_report_ != nullptr) {
      outcome.Update(keep_report_(work->figures(), run_->end.completed()));
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
  // If only the export fails, the ledger still says that the run is complete: the training is.
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
