// One run of the label party, as the parts of its session share it: how it ends, whether its peer is still there, and
// what was refused.
#ifndef SPLITVEIL_LABEL_PARTY_SESSION_RUN_H_
#define SPLITVEIL_LABEL_PARTY_SESSION_RUN_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "common/checkpoint/checkpoint_plan.h"
#include "common/ledger/ledger.h"
#include "common/model/model_state.h"
#include "common/process/steady_time.h"
#include "label_party/session/protocol_state.h"
#include "label_party/session/result_json.h"
#include "label_party/storage/run_records.h"
#include "label_party/training/step_recorder.h"

#include "splitveil/v1/agreement.pb.h"
#include "splitveil/v1/split_training.pb.h"

namespace splitveil {

// Not thread-safe.
class RunEnd {
 public:
  enum class Cause {
    kCompleted,         // The peer has closed it, and all is done.
    kStopped,           // At the request of this party's operator.
    kPeer,              // The peer is lost or gives up, or both parties find the same reason.
    kRefused,           // The peer has asked for something with which the run cannot continue.
    kPeerStartedAgain,  // A different process of the peer continues the run, in a new session.
    kOwnFailure,        // This party has failed, or its release gate halts the run.
    kOperatorHalt,      // This party's operator halts it, as its release gate would.
  };

  // `protocol`, `waiting` (woken by the end): not owned; must outlive this.
  RunEnd(ProtocolState* protocol, WakeableSleep* waiting) : protocol_(protocol), waiting_(waiting) {}

  // Ends the run; the first end counts. `why`: its outcome, OK for kCompleted alone. Returns what the peer hears: of a
  // failure of this party's own not what it was, nor why the release gate halted the run, which reveals labels.
  absl::Status End(Cause cause, absl::Status why);
  // End(kOwnFailure, status) unless OK: then the run continues.
  absl::Status EndUnlessOk(const absl::Status& status);
  // After the end: what failed while the run was put away. It is the outcome if there was no error before.
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

  // The run is open: from now on interruptions are recorded in `ledger`, which also holds those of earlier parts of the
  // run. Not owned; must outlive this.
  void RecordIn(Ledger* ledger);

  // The peer has sent a message that could be used. Refused ones do not count, or they could keep the run alive for
  // ever. If the connection was lost, the interruption is over: its length is logged and recorded, for the first 100 of
  // a run. So is an unusually long silence within a stream, in which the connection held and nothing came.
  void Heard();
  // The connection of an open run is lost: the peer has as long to come back as max_outage_seconds say, or for its next
  // message, if that is longer.
  void ConnectionLost();
  // A Train or Evaluate stream has been opened, or has ended. In training without one a connection is lost without a
  // sign: the peer is waited for as if it were known to be.
  void StreamOpened() { ++streams_; }
  void StreamClosed() { --streams_; }
  // Unavailable once nothing has been heard for longer than the agreement allows in `state`. Logs now and then that no
  // peer has opened a run yet.
  absl::Status CheckHeard(ProtocolState::State state);

  // Once the run has ended: how many interruptions there were beyond those recorded. Errors: those of the ledger.
  absl::Status RecordUnnoted() const;

 private:
  const v1::Deadlines* const deadlines_;
  const SteadyClock clock_;
  SteadyTime last_heard_;
  WaitReminder unopened_;
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

// In the ledger and the log, the first 100 of a run, however often it is interrupted: a peer that never stops must
// not fill the disk. Not thread-safe.
class RefusalLog {
 public:
  static constexpr int64_t kMaxNoted = 100;

  // `call` was refused with `status`. What is no refusal is not noted: this party failed, the run has ended.
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

// RunTraining or RunPrediction. The methods named like LabelSession's do what is said there. Not thread-safe.
class RunWork {
 public:
  virtual ~RunWork() = default;

  virtual absl::Status Evaluate(const v1::CutActivations& request, TestEvaluation& evaluation) = 0;
  virtual absl::StatusOr<v1::EvaluateResponse> FinishEvaluation(const TestEvaluation& evaluation) = 0;
  // Finishes a step whose gradients were sent.
  virtual absl::Status Learn() { return absl::OkStatus(); }
  // Finishes the last step. Errors: FailedPrecondition while messages of the run are still due.
  virtual absl::Status Complete() = 0;

  // Once the run has ended: writes the last rows, while the ledger is still open.
  virtual absl::Status FinishRecords() { return absl::OkStatus(); }
  // After that. `ended`: RunResult::ended.
  virtual void Ended(const char* ended) = 0;

  virtual const ModelState& model() const = 0;
  virtual RunFigures figures() const = 0;
};

// Not thread-safe.
class RunClosing {
 public:
  // Keeps the figures of a run that has ended.
  using KeepReport = std::function<absl::Status(const RunFigures&, bool complete)>;

  // `keep_report`: null: nowhere. `run`: not owned; must outlive this.
  RunClosing(KeepReport keep_report, Run* run);

  // Last figures, export, ledger, report; the first call does it. `work`: null if it never began. Returns the
  // run's outcome, which is an error, too, if one of these fails.
  absl::Status Finish(RunWork* work);

 private:
  absl::Status FinishLedger(RunWork* work);
  absl::Status Export(const RunWork* work) const;

  const KeepReport keep_report_;
  Run* const run_;
  std::optional<absl::Status> finished_;  // What Finish has returned.
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_SESSION_RUN_H_
