// How a run of the label party lives and ends: ledger, checkpoints, early stopping, silence, export.
#ifndef SPLITVEIL_LABEL_PARTY_SESSION_RUN_LIFECYCLE_H_
#define SPLITVEIL_LABEL_PARTY_SESSION_RUN_LIFECYCLE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/checkpoint/checkpoint.h"
#include "common/checkpoint/checkpoint_plan.h"
#include "common/checkpoint/continuation.h"
#include "common/ledger/ledger.h"
#include "common/model/model_state.h"
#include "common/process/steady_time.h"
#include "label_party/audit/leak_auditor.h"
#include "label_party/session/answer_journal.h"
#include "label_party/session/early_stopper.h"
#include "label_party/session/label_state.h"
#include "label_party/session/protocol_state.h"

#include "splitveil/v1/agreement.pb.h"
#include "splitveil/v1/party.pb.h"
#include "splitveil/v1/split_training.pb.h"

namespace splitveil {

// Not thread-safe.
class RunLifecycle {
 public:
  enum class End { kCompleted, kStopped, kFailed };

  // `agreement`, `config`: not owned; must outlive this. `clock`: silence is measured by it.
  RunLifecycle(const v1::RunAgreement* agreement, const v1::LabelPartyConfig* config, CheckpointPlan checkpoints,
               std::string ledger_path, SteadyClock clock);

  // Beginning.

  // Finds the latest unfinished checkpoint that both parties have, or else the one whose weights the peer starts from;
  // neither: it starts with fresh weights. Errors: FailedPrecondition with what either party has.
  absl::Status ChooseCheckpoint(const v1::OpenRequest& request);
  // The checkpoint of the broken run that this one goes on with; null: it is a new run.
  const Checkpoint* continued() const { return continues_ ? checkpoint_.get() : nullptr; }
  // Opens the ledger; `run` lacks what the checkpoint says. Errors: those of the ledger.
  absl::Status BeginLedger(RunRow run);
  // What a run that is continued goes on with. Errors: as ContinuationOf.
  absl::StatusOr<Continuation> TakeContinuation(const Dataset& data);
  // Goes with every checkpoint.
  void KeepContinuation(const Continuation& continuation);
  // What has been answered; of a run without checkpoints null. Errors: as AnswerJournal.
  absl::StatusOr<std::unique_ptr<AnswerJournal>> OpenJournal() const;
  // The largest cumulative_sum_kl of the checkpoints that this run might have started from; 0 without any.
  double counted_sum_kl() const;
  // The checkpoint chosen; null: fresh weights. From then on none is held here.
  std::shared_ptr<const Checkpoint> TakeCheckpoint();
  // Of a run that could not be aligned, and ends: one attempt per run, since each would let the peer try another list
  // of ids on this party's set. `status`: the alignment's. Errors: those of the ledger.
  absl::Status RecordFailedAlignment(const absl::Status& status);
  // Null before BeginLedger.
  Ledger* ledger() const { return ledger_.get(); }

  // Between epochs.

  // Takes an epoch's test metrics; whether training has stopped to help (EarlyStopper).
  bool ShouldStopTraining(const TestMetrics& metrics);
  // Records that it stops. `epochs`: trained.
  absl::Status RecordEarlyStop(uint32_t epochs);
  // Takes those of a run that is continued: none of them stopped it.
  void RememberMetrics(const std::vector<TestMetrics>& metrics);

  // Between steps.

  // Where the run is, and what its party holds then.
  struct Place {
    std::string run_id;
    uint32_t epochs = 0, batches = 0;  // Trained: whole epochs, and batches of the next one.
    int64_t steps = 0;
    uint32_t peer_epochs = 0;  // LeakAuditor::peer_epochs.
    LabelState state;
    std::string progress;
  };
  bool writes_checkpoints() const { return !checkpoints_.path.empty(); }
  // Only where writes_checkpoints(). Errors: those of CheckpointPlan::Write and the ledger.
  absl::Status WriteCheckpoint(const Place& place, const ModelState& model);

  // Silence.

  // The peer has sent what could be used. What is refused does not count: it could be sent for ever. Where its
  // connection was lost, that is over: its length is logged and recorded, for the first 100 of a run; Finish records
  // how many more there were.
  void Heard();
  // Its connection is lost: it has as long to come back as the agreement's max_outage_seconds say, or for its next
  // message, where that is longer.
  void ConnectionLost();
  // A Train or Evaluate stream has been opened, or has ended. In training without one a connection is lost without a
  // sign: the peer is waited for as if it were known to be.
  void StreamOpened() { ++streams_; }
  void StreamClosed() { --streams_; }
  // Unavailable once nothing has been heard for longer than the agreement allows in `state`.
  absl::Status CheckHeard(ProtocolState::State state) const;

  // End.

  // The one way a run ends. The first end counts. `outcome`: OK, or why it failed.
  void EndRun(End end, absl::Status outcome);
  bool ended() const { return ended_; }
  // After the end: last figures, export, ledger. `auditor`, `model`: null where training never began. Returns the run's
  // outcome, which is an error, too, where one of these fails. `own_verdict`: what makes a complete run no success at
  // this party alone; then nothing is exported, and the ledger says "failed".
  absl::Status Finish(LeakAuditor* auditor, const ModelState* model, const absl::Status& own_verdict);
  // A complete run, and nothing has failed.
  bool completed() const { return ended_ && end_ == End::kCompleted && outcome_.ok(); }
  // "completed", "stopped", "halted" or "failed", as the ledger says it.
  const char* end_name() const;

 private:
  absl::Status Export(const ModelState* model) const;

  const v1::RunAgreement* const agreement_;
  const v1::LabelPartyConfig* const config_;
  CheckpointPlan checkpoints_;
  const std::string ledger_path_;
  std::unique_ptr<Ledger> ledger_;
  std::shared_ptr<const Checkpoint> checkpoint_;
  bool continues_ = false;                       // The run of that checkpoint, and not only from its weights.
  std::unique_ptr<EarlyStopper> early_stopper_;  // Null: not configured.
  const SteadyClock clock_;
  SteadyTime last_heard_;
  bool connection_lost_ = false;  // Since then.
  int64_t interruptions_ = 0;
  int streams_ = 0;  // Open.
  bool ended_ = false;
  End end_ = End::kFailed;
  absl::Status outcome_, own_verdict_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_SESSION_RUN_LIFECYCLE_H_
