#include "label_party/session/protocol_state.h"

#include <cstddef>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"

namespace splitveil {
namespace {

using State = ProtocolState::State;
using Message = ProtocolState::Message;

// As the peer calls it, in the order of Message. Both kinds of Close are one call.
constexpr const char* kNames[] = {
    "Open",          "Align",          "MeasureLink",     "Start", "Train", "Evaluate", "ScoreBatch", "AuxiliaryLabels",
    "ScoreExamples", "EmbedAuxiliary", "GuessAttributes", "Close", "Close"};
static_assert(std::size(kNames) == static_cast<size_t>(Message::kGiveUp) + 1);

const char* Name(Message message) { return kNames[static_cast<size_t>(message)]; }

// Of an open run. `aligns`: an alignment of it has begun.
bool IsInOrder(Message message, State state, bool aligns) {
  switch (message) {
    case Message::kOpen:
      return false;
    case Message::kAlign:
      // Again after kAligned only if this run aligned: an alignment from the cache needs none.
      return state == State::kOpened || (aligns && state <= State::kAligned);
    case Message::kMeasureLink:
    case Message::kStart:
      return state == State::kAligned;
    // A peer may leave at any time; refusing it would only leave the session waiting for its silence.
    case Message::kGiveUp:
      return true;
    case Message::kEvaluate:
    case Message::kClose:
      return state == State::kPredicting || state == State::kTraining;
    default:
      return state == State::kTraining;
  }
}

}  // namespace

absl::Status ProtocolState::Check(Message message) const {
  absl::MutexLock lock(&mutex_);
  return CheckOf(message, run_id_);
}

absl::Status ProtocolState::Check(Message message, const std::string& run_id) const {
  absl::MutexLock lock(&mutex_);
  return CheckOf(message, run_id);
}

absl::Status ProtocolState::CheckOf(Message message, const std::string& run_id) const {
  if (message == Message::kOpen) {
    return state_ == State::kWaiting ? absl::OkStatus()
                                     : absl::FailedPreconditionError("Open: a run is under way or has ended");
  }
  // Ended is checked before the run's id: the peer must hear of the end, whatever it asks.
  if (state_ >= State::kCompleted) {
    return Heard();
  }
  if (state_ == State::kWaiting) {
    return absl::AbortedError(absl::StrCat(Name(message), ": no run is open"));
  }
  // A message of an earlier run, delayed on the wire, must not be taken for one of this run.
  if (run_id != run_id_) {
    return absl::InvalidArgumentError(absl::StrCat(Name(message), ": run_id: not the id of the open run"));
  }
  return IsInOrder(message, state_, aligns_)
             ? absl::OkStatus()
             : absl::FailedPreconditionError(absl::StrCat(Name(message), ": out of order in this state of the run"));
}

void ProtocolState::Opened(std::string run_id) {
  absl::MutexLock lock(&mutex_);
  run_id_ = std::move(run_id);
  state_ = State::kOpened;
}

void ProtocolState::Aligning() {
  absl::MutexLock lock(&mutex_);
  // Transitions come from several threads, and the end of a run is final.
  if (state_ <= State::kAligned) {
    state_ = State::kAligning;
    aligns_ = true;
  }
}

void ProtocolState::AlignmentLost() {
  absl::MutexLock lock(&mutex_);
  if (state_ == State::kAligning) {
    state_ = State::kOpened;
  }
}

bool ProtocolState::MayRepeat(Message message) const {
  absl::MutexLock lock(&mutex_);
  switch (message) {
    case Message::kOpen:
      // Not while ids are exchanged: the peer has had its answer then. kAligned: a continued run, or one with a cached
      // alignment, is there right after Open.
      return state_ == State::kOpened || state_ == State::kAligned;
    case Message::kStart:
      // After the first step the peer has shown that it got the answer to Start.
      return state_ == State::kPredicting || (state_ == State::kTraining && !stepped_);
    case Message::kClose:
      return state_ == State::kCompleted || state_ == State::kFarewell;
    default:
      return false;
  }
}

bool ProtocolState::MayBeTakenUp() const {
  absl::MutexLock lock(&mutex_);
  return state_ >= State::kOpened && state_ <= State::kCompleted;
}

void ProtocolState::Stepped() {
  absl::MutexLock lock(&mutex_);
  stepped_ = true;
}

absl::Status ProtocolState::HowItEnded() const {
  absl::MutexLock lock(&mutex_);
  return Heard();
}

absl::Status ProtocolState::Heard() const {
  // Why a run ended may depend on labels, so most causes give the same words.
  return heard_.ok() ? absl::CancelledError("the label party has ended the run") : heard_;
}

void ProtocolState::Ended(absl::Status heard) {
  absl::MutexLock lock(&mutex_);
  // The first reason stays: the peer may ask several times and must get the same answer.
  if (state_ != State::kEnded) {
    heard_ = std::move(heard);
    state_ = State::kEnded;
  }
}

void ProtocolState::Enter(State state) {
  absl::MutexLock lock(&mutex_);
  // States are in the order of a run, so a transition that comes late cannot lead back.
  if (state > state_) {
    state_ = state;
  }
}

State ProtocolState::state() const {
  absl::MutexLock lock(&mutex_);
  return state_;
}

std::string ProtocolState::run_id() const {
  absl::MutexLock lock(&mutex_);
  return run_id_;
}

}  // namespace splitveil
