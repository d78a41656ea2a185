// The label party's side of a run, free of gRPC.
//
//   non-label party                                  label party
//   Open(agreement, commitment) ──────────────────►  kWaiting  -> kOpened
//   Align: set sizes, masked, double-masked  ◄────►  kOpened   -> kAligned
//   Start(order digest, seed reveal) ─────────────►  kAligned  -> kTraining
//   Evaluate: all activations ────────────────────►  test metrics (progressive_validation only)
//   per epoch:
//     Train: slices of (epoch, batch) ────────────►  once all are there: protect, gate
//            ◄──────────── protected gradients       then Learn
//     ScoreBatch(scores) ─────────────────────────►  judged by LeakAuditor
//     Evaluate: test activations ─────────────────►  test metrics, checkpoint, early stopping
//   AuxiliaryLabels, ScoreExamples (ORACLE) ────►  judged by CompletionAudit
//   Close ────────────────────────────────────────►  kTraining -> kClosed
//
// Every message is checked against the state, the schedule and the agreement before it is used. A message that is
// refused changes nothing: the run goes on from where it was with a correct one.
#ifndef SPLITVEIL_LABEL_PARTY_SESSION_LABEL_SESSION_H_
#define SPLITVEIL_LABEL_PARTY_SESSION_LABEL_SESSION_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "common/alignment/private_set_intersection.h"
#include "common/checkpoint/checkpoint_plan.h"
#include "common/dataset/dataset.h"
#include "common/ledger/ledger.h"
#include "common/operations/run_status.h"
#include "common/operations/training_progress.h"
#include "common/schedule/joint_seed.h"
#include "label_party/audit/completion_audit.h"
#include "label_party/audit/leak_auditor.h"
#include "label_party/protection/protection_factory.h"
#include "label_party/session/early_stopper.h"
#include "label_party/session/trainer.h"

#include "splitveil/v1/agreement.pb.h"
#include "splitveil/v1/leak_audit.pb.h"
#include "splitveil/v1/party.pb.h"
#include "splitveil/v1/split_training.pb.h"

namespace splitveil {

struct LabelSessionOptions {
  v1::RunAgreement agreement;   // Canonical and valid.
  v1::LabelPartyConfig config;  // Valid; defaults set.
  std::string ledger_path;
  std::shared_ptr<const Dataset> data;  // Prepared for the agreement's split (CheckSplit).
  CheckpointPlan checkpoints;
  Protection protection;
  RunStatus* status = nullptr;  // Not owned; must outlive the session.
};

// One run. Thread-safe; the calls of one stream come one after the other.
class LabelSession {
 public:
  // Errors: InvalidArgument where the data hold no labels, or the top model is a file that does not fit,
  // or where the folder for the export cannot be written to.
  static absl::StatusOr<std::unique_ptr<LabelSession>> Create(LabelSessionOptions options);

  absl::StatusOr<v1::OpenResponse> Open(const v1::OpenRequest& request);
  absl::Status Align(AlignmentChannel& channel);
  absl::StatusOr<v1::StartResponse> Start(const v1::StartRequest& request);

  // Takes the next slice of a batch; what may leave of its protected gradients (Trainer::Step), all of them once it is
  // complete. A slice already taken may come again, so that a batch whose stream broke can be sent from its start: it
  // gets the same bytes. With other activations it is FailedPrecondition. Call Learn once an answer has left.
  absl::StatusOr<SharedGradients> Train(v1::CutActivations request);
  absl::Status Learn();

  // Test logits of one Evaluate stream, before they count.
  struct Evaluation {
    uint32_t epoch = 0;
    uint32_t next_batch = 0;
    std::vector<float> logits;
  };
  absl::Status Evaluate(const v1::CutActivations& request, Evaluation& evaluation);
  absl::StatusOr<v1::EvaluateResponse> FinishEvaluation(const Evaluation& evaluation);

  absl::StatusOr<v1::ScoreBatchResponse> ScoreBatch(const v1::ScoreBatchRequest& request);
  // After the last epoch, where auxiliary labels are agreed.
  absl::StatusOr<v1::AuxiliaryLabelsResponse> AuxiliaryLabels(const v1::AuxiliaryLabelsRequest& request);
  absl::StatusOr<v1::ScoreExamplesResponse> ScoreExamples(const v1::ScoreExamplesRequest& request);
  absl::Status Close(const v1::CloseRequest& request);

  // Waits until the run has ended, the peer has been silent for longer than the agreement allows, or `stop` says so
  // (asked several times a second). OK: completed, or stopped on request. The ledger is finished when it returns.
  absl::Status WaitUntilEnded(bool (*stop)());

  // Figures of the run so far, for the RESULT line.
  std::string result_json() const;
  bool completed() const;
  // The model as trained; null before Start. Not to be used while the run goes on.
  const TopModel* model() const { return trainer_ == nullptr ? nullptr : &trainer_->model(); }

 private:
  // A batch of which slices have come.
  struct ReplaySlice {
    std::string activations;  // Their bytes.
    SharedGradients answer;   // What left once it had come.
  };
  struct ReplayEntry {
    uint32_t epoch = 0, batch = 0;
    std::map<uint32_t, ReplaySlice> slices;  // By first row.
    bool complete = false;
  };
  enum class State { kWaiting, kOpened, kAligning, kAligned, kTraining, kClosed, kFailed };

  LabelSession(LabelSessionOptions options, SeedExchange seed);

  // All of these need mutex_.
  absl::Status CheckRun(const std::string& run_id, State expected, const char* call);
  absl::Status BeginLedger(const v1::OpenRequest& request);
  // Finds the checkpoint that the peer continues from.
  absl::Status ChooseCheckpoint(const std::string& theirs);
  const ReplayEntry* FindTaken(const v1::CutActivations& request) const;
  // What is due to a slice of `taken` that has been taken already.
  static absl::StatusOr<SharedGradients> Repeat(const ReplayEntry& taken, const v1::CutActivations& request);
  // Whether slices of the next batch to train have come.
  bool batch_begun() const { return !taken_.empty() && !taken_.back().complete; }
  absl::Status LearnLocked();
  absl::Duration SilenceLimit() const;
  bool EvaluatesEpochs() const;  // Each of them, after its training.
  // After a complete run, where the configuration names a folder.
  absl::Status Export() const;
  bool ExpectsEvaluationOf(uint32_t epoch) const;
  absl::Status CheckMayTrain() const;
  absl::Status StopWhereItHelpsNoMore();
  absl::Status WriteCheckpoint();
  void UpdateBoundExceeded();
  absl::Status CheckTrained(const std::string& run_id, const char* call);
  // Ends the run with an error that concerns the peer; returns it.
  absl::Status Fail(absl::Status status);
  // Ends the run with an error of this party; returns what the peer may know of it.
  absl::Status FailInside(absl::Status status);

  LabelSessionOptions options_;
  std::string run_id_;
  SeedExchange seed_;
  std::unique_ptr<Ledger> ledger_;
  std::unique_ptr<LeakAuditor> auditor_;  // From Start on.

  mutable std::mutex mutex_;  // Guards everything below.
  std::condition_variable ended_;
  std::atomic<State> state_ = State::kWaiting;  // Changed under mutex_.
  absl::Status outcome_;
  absl::Time last_heard_;
  std::string peer_commitment_;
  AlignedIds aligned_;
  std::shared_ptr<const Checkpoint> continued_;  // From Open to Start; null: fresh weights.
  std::unique_ptr<Trainer> trainer_;
  std::unique_ptr<EarlyStopper> early_stopper_;  // Null: not configured.
  std::unique_ptr<CompletionAudit> completion_;  // From the first AuxiliaryLabels on.
  uint32_t epoch_ = 0;                           // Next batch to train.
  uint32_t batch_ = 0;
  uint32_t epochs_to_train_ = 0;  // As agreed, or fewer where the training has stopped early.
  uint32_t evaluated_epochs_ = 0;
  bool predicted_ = false;  // Under progressive_validation: the evaluation before the first batch is done.
  bool completed_ = false;  // The peer has closed a complete run.
  std::unique_ptr<TrainingProgress> progress_;
  std::deque<ReplayEntry> taken_;  // Latest last: as many answered ones as may be under way, and the one that comes.
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_SESSION_LABEL_SESSION_H_
