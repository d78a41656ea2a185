#include "label_party/session/peer_presence.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"

#include "common/telemetry/log.h"

namespace splitveil {
namespace {

constexpr int64_t kMaxInterruptionsNoted = 100;  // A peer that comes and goes must not fill the disk.

double SilenceLimitSeconds(const v1::Deadlines& deadlines, ProtocolState::State state) {
  switch (state) {
    case ProtocolState::State::kWaiting:
      return deadlines.connect_seconds();
    case ProtocolState::State::kAligning:
    case ProtocolState::State::kAligned:
      return deadlines.alignment_chunk_seconds();
    default:
      return deadlines.step_seconds();
  }
}

}  // namespace

PeerPresence::PeerPresence(const v1::Deadlines* deadlines, SteadyClock clock)
    : deadlines_(deadlines), clock_(std::move(clock)), last_heard_(clock_()) {}

void PeerPresence::RecordIn(Ledger* ledger) {
  ledger_ = ledger;
  // A ledger that fails ends the run at its next step.
  interruptions_ = std::min(ledger->CountEventsOfRun("interrupted").value_or(0), kMaxInterruptionsNoted);
}

void PeerPresence::Heard() {
  const SteadyTime now = clock_();
  const double silent = absl::ToDoubleSeconds(absl::FromChrono(now - last_heard_));
  const bool noted = interruptions_ <= kMaxInterruptionsNoted;
  if (!connection_lost_ && streams_ > 0 && silence_.IsStall(silent) && ++stalls_ <= kMaxInterruptionsNoted) {
    const std::string detail = absl::StrFormat("%.1f s without the non-label party, the connection held", silent);
    LogInfo("it goes on after ", detail);
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
  if (ledger_ != nullptr && !connection_lost_) {
    connection_lost_ = true;
    if (++interruptions_ > kMaxInterruptionsNoted) {
      return;
    }
    LogWarning("the non-label party is gone within its work; it may come back for ",
               absl::FormatDuration(absl::Seconds(deadlines_->max_outage_seconds())));
  }
}

absl::Status PeerPresence::CheckHeard(ProtocolState::State state) const {
  const bool between_streams = state >= ProtocolState::State::kPredicting && streams_ == 0;
  const bool may_be_lost = connection_lost_ || between_streams;
  const double patience = may_be_lost ? deadlines_->max_outage_seconds() : 0;
  const absl::Duration limit = absl::Seconds(std::max(patience, SilenceLimitSeconds(*deadlines_, state)));
  return absl::FromChrono(clock_() - last_heard_) <= limit
             ? absl::OkStatus()
             : absl::UnavailableError(
                   absl::StrCat("the non-label party: expected to hear from it within ", absl::FormatDuration(limit),
                                connection_lost_ ? ", found its connection lost and no other" : ", found silence"));
}

absl::Status PeerPresence::RecordUnnoted() const {
  return interruptions_ <= kMaxInterruptionsNoted
             ? absl::OkStatus()
             : ledger_->RecordEvent("interrupted", absl::StrCat(interruptions_ - kMaxInterruptionsNoted, " more"));
}

}  // namespace splitveil
