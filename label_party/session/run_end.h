// The one way a run of the label party ends, whatever the cause.
#ifndef SPLITVEIL_LABEL_PARTY_SESSION_RUN_END_H_
#define SPLITVEIL_LABEL_PARTY_SESSION_RUN_END_H_

#include <utility>

#include "absl/status/status.h"

#include "common/process/steady_time.h"
#include "label_party/session/protocol_state.h"

namespace splitveil {

// Not thread-safe.
class RunEnd {
 public:
  enum class Cause {
    kCompleted,         // The peer has closed it, and all is done.
    kStopped,           // On request of whoever operates this party.
    kPeer,              // The peer is gone or gives up, or both parties find the same reason.
    kRefused,           // The peer has asked for what the run cannot go on with.
    kPeerStartedAgain,  // Another process of the peer's takes the run up, in another session.
    kOwnFailure,        // This party has failed, or its release gate halts the run.
    kOperatorHalt,      // Whoever operates this party halts it, as its release gate would.
  };

  // `protocol`, `waiting` (woken by the end): not owned; must outlive this.
  RunEnd(ProtocolState* protocol, WakeableSleep* waiting) : protocol_(protocol), waiting_(waiting) {}

  // Ends the run; the first end counts. `why`: its outcome, OK for kCompleted alone. Returns what the peer hears: of a
  // failure of this party's own not what it was, nor why the release gate halted the run, which tells of labels.
  absl::Status End(Cause cause, absl::Status why);
  // End(kOwnFailure, status) unless OK: then the run goes on.
  absl::Status EndUnlessOk(const absl::Status& status);
  // After the end: what failed while the run was put away. It is the outcome where there was no error before.
  void Amend(const absl::Status& status);

  // What makes a complete run no success at this party alone, and is not the peer's to know. Then nothing is exported,
  // and the ledger says "failed".
  void SetOwnVerdict(absl::Status verdict) { own_verdict_ = std::move(verdict); }
  const absl::Status& own_verdict() const { return own_verdict_; }

  bool ended() const { return ended_; }
  // A complete run, and nothing has failed.
  bool completed() const { return ended_ && cause_ == Cause::kCompleted && outcome_.ok(); }
  // OK, or why it failed; the peer's refusals are marked as such (AsRefusal).
  const absl::Status& outcome() const { return outcome_; }
  // "completed", "stopped", "halted" or "failed", as the ledger says it.
  const char* name() const;
  // Whoever operates this party has stopped it, or halted it: nothing of the peer's has ended it.
  bool stopped() const { return ended_ && cause_ == Cause::kStopped; }
  bool halted_by_operator() const { return ended_ && cause_ == Cause::kOperatorHalt; }
  // This party has failed, or its release gate has halted the run.
  bool failed() const { return ended_ && cause_ == Cause::kOwnFailure; }
  // kPeerStartedAgain has come, be it after the end.
  bool peer_started_again() const { return peer_started_again_; }

 private:
  ProtocolState* const protocol_;
  WakeableSleep* const waiting_;
  bool ended_ = false;
  Cause cause_ = Cause::kOwnFailure;
  absl::Status outcome_, own_verdict_;
  bool peer_started_again_ = false;
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_SESSION_RUN_END_H_
