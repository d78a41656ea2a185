// The label party's side of a run, free of gRPC.
//
//   non-label party                                  label party
//   Open(agreement, commitment) ──────────────────►  kWaiting  -> kOpened
//   Align: set sizes, masked, double-masked  ◄────►  kOpened   -> kAligned, at once if an interrupted run is continued;
//                                                    restarted if its connection was lost
//   Start(order digest, seed reveal) ─────────────►  kAligned  -> kTraining
//   Evaluate: all activations ────────────────────►  test metrics (progressive_validation only)
//   per epoch:
//     Train: slices of (epoch, batch) ────────────►  once all are there: protect, gate
//            ◄──────────── protected gradients       then Learn
//     ScoreBatch(scores) ─────────────────────────►  judged by LeakAuditor
//     Evaluate: test activations ─────────────────►  test metrics, checkpoint, early stopping
//     EmbedAuxiliary, GuessAttributes ────────────►  AttributeAudit; the checkpoint follows it
//            ◄────────────────────────────── guesses
//   AuxiliaryLabels, ScoreExamples (ORACLE) ────►  judged by CompletionAudit
//   Close ────────────────────────────────────────►  kTraining -> kCompleted, and kFarewell once the peer has heard
//
// A run with mode PREDICT has no epochs: Open, Align, Start (kAligned -> kPredicting), one Evaluate with the
// activations of every shared example, Close.
//
// Every message is checked against the state, the schedule and the agreement before it is used. A message that is
// refused changes nothing about the run, not even the time since the peer was heard: a correct one continues it. The
// latest message of each kind may come once more, since its answer may have been lost with the connection: the same
// bytes get the same answer, and nothing is done twice.
#ifndef SPLITVEIL_LABEL_PARTY_SESSION_LABEL_SESSION_H_
#define SPLITVEIL_LABEL_PARTY_SESSION_LABEL_SESSION_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"

#include "common/alignment/private_set_intersection.h"
#include "common/checkpoint/checkpoint_plan.h"
#include "common/dataset/dataset.h"
#include "common/model/model_state.h"
#include "common/operations/run_facts.h"
#include "common/operations/run_status.h"
#include "common/process/steady_time.h"
#include "common/schedule/schedule.h"
#include "label_party/audit/leak_auditor.h"
#include "label_party/protection/protection_factory.h"
#include "label_party/session/run.h"
#include "label_party/session/run_opening.h"
#include "label_party/session/run_prediction.h"
#include "label_party/session/run_training.h"
#include "label_party/training/attribute_audit.h"
#include "label_party/training/gradients_message.h"
#include "label_party/training/step_recorder.h"

#include "splitveil/v1/agreement.pb.h"
#include "splitveil/v1/attribute_audit.pb.h"
#include "splitveil/v1/leak_audit.pb.h"
#include "splitveil/v1/party.pb.h"
#include "splitveil/v1/split_training.pb.h"

namespace splitveil {

struct LabelSessionOptions {
  v1::RunAgreement agreement;   // Canonical and valid.
  v1::LabelPartyConfig config;  // Valid; defaults set.
  std::string ledger_path;
  std::shared_ptr<const Dataset> data;  // Prepared for the agreement's split (CheckSplit).
  // What this party knows of attributes (LabelPartyConfig.attribute_attack), if attacks on them are agreed; else
  // null.
  std::shared_ptr<const Dataset> known_attributes;
  CheckpointPlan checkpoints;
  AlignmentStore alignments;
  Protection protection;
  std::string account_id;  // PrivacyAccount::id of the account that `protection` debits; empty: none.
  // The session takes the place of one whose peer opened it again once something may have been released: a new run,
  // with other noise and an account of its own, would be the peer's to have as often as it likes.
  bool only_continues = false;
  int alignments_left = kMostAlignments;  // Of this process.
  RunStatus* status = nullptr;            // Not owned; must outlive the session.
  SteadyClock clock = SteadyNow;
  // Keeps the figures of a run that has ended, once, before the peer hears that it is complete. Null: nowhere.
  // `complete`: what the peer will hear. If all labels of the shared examples are alike, figures.ended is "failed"
  // nevertheless: the figures mean nothing, and the peer must not be told.
  std::function<absl::Status(const RunFigures& figures, bool complete)> keep_report;
};

// One run, as the peer's messages drive it: each method checks its message against the state (ProtocolState) and hands
// it to the part of the run that it belongs to, of which each ends the run by RunEnd if it must:
//
//   Open, Align, MeasureLink, Start           RunOpening
//   Train, Evaluate, AuxiliaryLabels, ...     RunTraining; with mode PREDICT, Evaluate alone: RunPrediction
//   Close                                     RunClosing
//
// Thread-safe; the calls of one stream come one after the other.
class LabelSession {
 public:
  // Errors: InvalidArgument if the data hold no labels, or labels that are all alike, the top model is a file that
  // does not fit, or if the folder for the export cannot be written to.
  static absl::StatusOr<std::unique_ptr<LabelSession>> Create(LabelSessionOptions options);

  absl::StatusOr<v1::OpenResponse> Open(const v1::OpenRequest& request);
  // `taken`: called when this alignment starts. It supersedes one that may still be running, whose outcome no longer
  // counts. May be empty.
  absl::Status Align(AlignmentChannel& channel, const std::function<void()>& taken = nullptr);
  absl::StatusOr<v1::MeasureLinkResponse> MeasureLink(const v1::MeasureLinkRequest& request);
  absl::StatusOr<v1::StartResponse> Start(const v1::StartRequest& request);

  // Takes the next slice of a batch; what may be sent of its protected gradients (TrainingStep::Answer), all of them
  // once it is complete. A slice already taken may come again, so that a batch whose stream broke can be sent from its
  // start: it gets the same bytes. With other activations it is FailedPrecondition. Call Learn once an answer was sent.
  // `after_loss`: it comes on a new stream while the old one is not known to be lost; so it is once this one is taken.
  absl::StatusOr<SharedGradients> Train(v1::CutActivations request, bool after_loss = false);
  absl::Status Learn();

  // Test logits of one Evaluate stream, before they count.
  using Evaluation = TestEvaluation;
  absl::Status Evaluate(const v1::CutActivations& request, Evaluation& evaluation);
  absl::StatusOr<v1::EvaluateResponse> FinishEvaluation(const Evaluation& evaluation);

  absl::StatusOr<v1::ScoreBatchResponse> ScoreBatch(const v1::ScoreBatchRequest& request);
  // After the last epoch, if auxiliary labels are agreed.
  absl::StatusOr<v1::AuxiliaryLabelsResponse> AuxiliaryLabels(const v1::AuxiliaryLabelsRequest& request);
  absl::StatusOr<v1::ScoreExamplesResponse> ScoreExamples(const v1::ScoreExamplesRequest& request);
  // Of one EmbedAuxiliary stream, before they count: after the evaluation of a due epoch, if the peer grants it.
  using Embedding = AuxiliaryEmbedding;
  absl::Status EmbedAuxiliary(const v1::CutActivations& request, Embedding& embedding);
  absl::StatusOr<v1::EmbedAuxiliaryResponse> FinishEmbedding(const Embedding& embedding);
  // After that. Other calls wait meanwhile, as long as the attacks take; what WaitUntilEnded asks stops them.
  absl::StatusOr<SharedGuesses> GuessAttributes(const v1::GuessAttributesRequest& request);
  // OK to a peer that has completed the run: all that this party keeps of it is kept.
  absl::Status Close(const v1::CloseRequest& request);

  // A Train or Evaluate stream begins, or has ended for any reason. Between streams a lost connection shows no sign, so
  // the peer has as long to come back as the agreement's max_outage_seconds say.
  void StreamOpened();
  void StreamClosed();
  // A Train stream has ended without an error; `cut_off`: not by the peer's wish. Within an epoch the peer is then
  // expected to come back.
  void TrainStreamEnded(bool cut_off);
  // See ProtocolState::HowItEnded.
  absl::Status HowItEnded() const { return protocol_.HowItEnded(); }
  // The connection was lost while the peer had more to send.
  void ConnectionLost();

  // Records in the ledger and logs that a message was refused with `status`, for the first 100 of a run. Does nothing
  // if it was no refusal (this party failed, the run has ended), nor before Open, when there is no ledger.
  void NoteRefusal(absl::string_view call, const absl::Status& status);

  // Ends the run as its release gate would, at the request of this party's operator: nothing is sent any more, and
  // both parties end with exit code 5. The step whose gradients were sent is finished first. Errors: FailedPrecondition
  // if no run is under way; those of that step and the ledger, which end the run themselves.
  absl::Status Halt();

  // Raises the noise (RunTraining::RaiseNoise). Errors: its; FailedPrecondition if nothing is trained.
  absl::Status RaiseNoise();
  // Lowers the disclosure level (RunTraining::LowerDisclosure). Errors: likewise.
  absl::Status LowerDisclosure();

  // Waits until the run has ended, the peer has been silent for longer than the agreement allows, or `stop` says so
  // (asked several times a second, and by decoders that learn, on their thread). OK: completed; StoppedOnRequest. The
  // ledger is finished when it returns.
  absl::Status WaitUntilEnded(bool (*stop)());
  // What makes a complete run no success at this party alone (RunEnd::SetOwnVerdict). It depends on labels: the peer
  // must not see it, not even by an exit code on which the process is started again, and its port opens.
  absl::Status own_verdict() const;
  // After a complete run: waits until the peer confirms that it knows, at most for `limit`. Until then the answer to
  // its Close may have been lost, and it may ask again. After a halt by the operator: waits until the peer has been
  // told.
  void AwaitFarewell(absl::Duration limit, bool (*stop)());
  // After a stop or a failure of this party: waits until the peer closes the run, at most for `limit`. The peer closes
  // it once it knows. Without the wait, a peer between two calls would find nobody, and an answer under way could be
  // lost with its connection: either way the peer would keep trying until the outage ends.
  void AwaitEndTold(absl::Duration limit);

  // Figures of the run so far, for the RESULT line, the file beside the ledger and the table; nullopt before Start.
  std::optional<RunFigures> figures() const;
  bool completed() const {
    absl::MutexLock lock(&mutex_);
    return end_.completed();
  }
  // Another process of the peer's has opened the run again, which it may take up from a checkpoint, in another session.
  bool peer_started_again() const {
    absl::MutexLock lock(&mutex_);
    return end_.peer_started_again();
  }
  // Whether something of the run may have been released.
  bool may_have_released() const;
  // As LabelSessionOptions', less those begun.
  int alignments_left() const {
    absl::MutexLock lock(&mutex_);
    return opening_.alignments_left();
  }
  // Whether a peer has opened the run.
  bool opened() const { return !protocol_.run_id().empty(); }
  // The model as trained; null before Start. Not to be used before the run has ended.
  const ModelState* model() const;

 private:
  // What came last of a kind, and its answer.
  template <typename Request, typename Response>
  struct Answered {
    std::string request;
    Response response;
    bool Is(const Request& again) const { return !request.empty() && request == again.SerializeAsString(); }
  };

  LabelSession(LabelSessionOptions options, SeedExchange seed);

  absl::Status BeginTraining(TrainingInputs inputs) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status BeginPrediction(TrainingInputs inputs) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ends the run if `stop` says so or the peer is silent; whether it has ended.
  bool EndIfDue(bool (*stop)()) ABSL_LOCKS_EXCLUDED(mutex_);

  Run run_;
  ProtocolState& protocol_ = run_.protocol;
  std::atomic<LeakAuditor*> judge_ = nullptr;  // training_'s, for those who must not wait for the step under way.
  WakeableSleep& ended_ = run_.ended;          // Of WaitUntilEnded,
  std::atomic<bool (*)()> stop_ = nullptr;     // what it asks, for those who work for long under the lock.

  absl::Mutex alignment_;  // Before mutex_. Held by the one that takes memory for all ids.
  mutable absl::Mutex mutex_;
  RunRecords& records_ ABSL_GUARDED_BY(mutex_) = run_.records;
  PeerPresence& presence_ ABSL_GUARDED_BY(mutex_) = run_.presence;
  RunEnd& end_ ABSL_GUARDED_BY(mutex_) = run_.end;
  RunOpening opening_ ABSL_GUARDED_BY(mutex_);
  uint64_t alignments_ ABSL_GUARDED_BY(mutex_) = 0;          // That have begun: the latest one counts.
  std::unique_ptr<RunWork> work_ ABSL_GUARDED_BY(mutex_);    // From Start on.
  RunTraining* training_ ABSL_GUARDED_BY(mutex_) = nullptr;  // It, unless the run predicts.
  RunClosing closing_ ABSL_GUARDED_BY(mutex_);
  RefusalLog refusals_ ABSL_GUARDED_BY(mutex_);
  Answered<v1::OpenRequest, v1::OpenResponse> opened_ ABSL_GUARDED_BY(mutex_);
  Answered<v1::StartRequest, v1::StartResponse> started_ ABSL_GUARDED_BY(mutex_);
  bool end_told_ ABSL_GUARDED_BY(mutex_) = false;  // The peer has been told of the end.
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_SESSION_LABEL_SESSION_H_
