// One run of the label party, as the parts of its session share it: how it ends, whether its peer is still there, and
// what was refused.
#ifndef SPLITVEIL_LABEL_PARTY_SESSION_RUN_H_
#define SPLITVEIL_LABEL_PARTY_SESSION_RUN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "common/checkpoint/checkpoint_plan.h"
#include "common/ledger/ledger.h"
#include "common/process/steady_time.h"
#include "label_party/session/protocol_state.h"
#include "label_party/storage/run_records.h"

#include "splitveil/v1/agreement.pb.h"

namespace splitveil {

// Not thread-safe.
class RunEnd {
 public:
  enum class Cause {
    kCompleted,         // The peer has closed it, and all is done.
    kStopped,           // At the request of this party's operator.
    kPeer,              // The peer is gone or gives up, or both parties find the same reason.
    kRefused,           // The peer has asked for what the run cannot go on with.
    kPeerStartedAgain,  // Another process of the peer's takes the run up, in another session.
    kOwnFailure,        // This party has failed, or its release gate halts the run.
    kOperatorHalt,      // This party's operator halts it, as its release gate would.
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
  // This party's operator has stopped or halted it: nothing of the peer's has ended it.
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

// Not thread-safe.
class PeerPresence {
 public:
  // `deadlines`: as agreed; not owned; must outlive this. `clock`: silence is measured by it.
  PeerPresence(const v1::Deadlines* deadlines, SteadyClock clock);

  // Where interruptions are recorded from now on, and where those of earlier parts of the run are: it is open. Not
  // owned; must outlive this.
  void RecordIn(Ledger* ledger);

  // The peer has sent what could be used. What is refused does not count: it could be sent for ever. Where its
  // connection was lost, that is over: its length is logged and recorded, for the first 100 of a run. So is that of a
  // silence within a stream that was none of the usual ones: the connection held, and nothing came.
  void Heard();
  // The connection of an open run is lost: the peer has as long to come back as max_outage_seconds say, or for its next
  // message, where that is longer.
  void ConnectionLost();
  // A Train or Evaluate stream has been opened, or has ended. In training without one a connection is lost without a
  // sign: the peer is waited for as if it were known to be.
  void StreamOpened() { ++streams_; }
  void StreamClosed() { --streams_; }
  // Unavailable once nothing has been heard for longer than the agreement allows in `state`.
  absl::Status CheckHeard(ProtocolState::State state) const;

  // Once the run has ended: how many interruptions there were beyond those recorded. Errors: those of the ledger.
  absl::Status RecordUnnoted() const;

 private:
  const v1::Deadlines* const deadlines_;
  const SteadyClock clock_;
  SteadyTime last_heard_;
  Ledger* ledger_ = nullptr;      // Null: no run is open.
  bool connection_lost_ = false;  // Since last_heard_.
  int64_t interruptions_ = 0;
  int streams_ = 0;  // Open.
  UsualWait silence_;
  int64_t stalls_ = 0;
};

// Whether `status` says that a message was not what is due; all else is no fault of the message.
bool IsRefusal(const absl::Status& status);
// Whether what failed is this party's ledger, not the message.
bool IsOfLedger(const absl::Status& status);

// In the ledger and the log, the first 100 of a run, however often it is interrupted: a peer that goes on and on must
// not fill the disk. Not thread-safe.
class RefusalLog {
 public:
  static constexpr int64_t kMaxNoted = 100;

  // `call` was refused with `status`. Nothing is told of what is no refusal: this party failed, the run has ended.
  // Errors: those of the ledger.
  absl::Status Note(absl::string_view call, const absl::Status& status, Ledger& ledger);

 private:
  std::optional<int64_t> noted_;  // In all parts of the run; nullopt before the first of this one.
};

// Made by LabelSession, which outlives every part that it hands the run to. `context`, `protocol` and `ended` are
// thread-safe; the others are used under the session's lock.
struct Run {
  // `clock` measures the peer's silence.
  Run(RunContext given, CheckpointPlan checkpoints, std::string ledger_path, SteadyClock clock)
      : context(std::move(given)),
        records(&context, std::move(checkpoints), std::move(ledger_path)),
        presence(&context.agreement.deadlines(), std::move(clock)) {}
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  const RunContext context;
  ProtocolState protocol;
  WakeableSleep ended;  // Woken when the run ends.
  RunRecords records;
  PeerPresence presence;
  RunEnd end{&protocol, &ended};
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_SESSION_RUN_H_
