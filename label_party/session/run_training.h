// The training of a run at the label party, message by message; slices that come again get the bytes they got.
#ifndef SPLITVEIL_LABEL_PARTY_SESSION_RUN_TRAINING_H_
#define SPLITVEIL_LABEL_PARTY_SESSION_RUN_TRAINING_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/checkpoint/kept_model.h"
#include "common/model/model_state.h"
#include "common/operations/run_status.h"
#include "label_party/audit/leak_auditor.h"
#include "label_party/session/result_json.h"
#include "label_party/session/run.h"
#include "label_party/training/attribute_audit.h"
#include "label_party/training/epoch_choice.h"
#include "label_party/training/gradients_message.h"
#include "label_party/training/step_recorder.h"
#include "label_party/training/training.h"
#include "label_party/training/training_order.h"

#include "splitveil/v1/attribute_audit.pb.h"
#include "splitveil/v1/leak_audit.pb.h"
#include "splitveil/v1/split_training.pb.h"

namespace splitveil {

// A slice that comes again gets the bytes it got: noise is drawn once, and a second draw on the same gradients would
// let the peer average it away. Not thread-safe.
class ReplayCache {
 public:
  // `batches`: how many complete ones are kept, the latest: those that may be under way.
  explicit ReplayCache(size_t batches) : batches_(batches) {}

  // What was sent for `request`, if its slice has been taken before; nullopt if it is new. Errors: FailedPrecondition
  // if its batch is kept with other activations, or is complete and has no such slice.
  absl::StatusOr<std::optional<SharedGradients>> Find(const v1::CutActivations& request) const;

  // Keeps `answer` for the slice `request`, which Find did not know. `last`: the batch is complete.
  void Keep(v1::CutActivations request, SharedGradients answer, bool last);

 private:
  struct ReplaySlice {
    std::string activations;  // Their bytes.
    SharedGradients answer;
  };
  struct ReplayEntry {
    uint32_t epoch = 0, batch = 0;
    std::map<uint32_t, ReplaySlice> slices;  // By first row.
    bool complete = false;
  };

  const size_t batches_;
  std::deque<ReplayEntry> entries_;  // Latest last: complete ones, and perhaps one that comes.
};

// Each method checks what its message holds (TrainingOrder, ReplayCache), the state having been checked, and hands it
// to the part that does the work (TrainingStep, TestEvaluator, CompletionAudit). An error leaves the run where it was,
// unless this party has failed or the peer has asked for a second draw of noise: these end it. Not thread-safe.
class RunTraining final : public RunWork {
 public:
  // `run`: not owned; must outlive this.
  // `inputs`: without an auditor, which is made here. Errors: see MakeTraining.
  static absl::StatusOr<std::unique_ptr<RunTraining>> Create(Run* run, TrainingInputs inputs);
  // Leaves the first checkpoint of a new run, so that its alignment is not lost.
  absl::Status Begin();

  // LabelSession's methods of these names.
  absl::StatusOr<SharedGradients> Train(v1::CutActivations request);
  absl::Status Learn() override;
  absl::Status Evaluate(const v1::CutActivations& request, TestEvaluation& evaluation) override;
  absl::StatusOr<v1::EvaluateResponse> FinishEvaluation(const TestEvaluation& evaluation) override;
  absl::StatusOr<v1::AuxiliaryLabelsResponse> AuxiliaryLabels();
  absl::Status ScoreExamples(const v1::ScoreExamplesRequest& request);
  absl::Status EmbedAuxiliary(const v1::CutActivations& request, AuxiliaryEmbedding& embedding);
  absl::StatusOr<v1::EmbedAuxiliaryResponse> FinishEmbedding(const AuxiliaryEmbedding& embedding);
  // `stop`: as AttributeAttackModule::Guess; it then ends the run.
  absl::StatusOr<SharedGuesses> GuessAttributes(const v1::GuessAttributesRequest& request, bool (*stop)());

  // An answer was sent; continues as Learn.
  absl::Status LearnFromAnswered();
  // All that was due has come: the last batch is learnt from, the last checkpoint written. Errors: FailedPrecondition
  // if something is missing.
  absl::Status Complete() override;
  // Some batches of the epoch have come, but not all.
  bool within_epoch() const { return !training_.order->at_epoch_start() || training_.order->batch_begun(); }

  // Halves what a step may disclose, from the next batch on that was not answered before: the divergence of the latest
  // release, or what was asked for before, is its twofold limit. There is no way back in this run, even if it is
  // continued; a step that is repeated after a crash gets the noise that it had. Recorded. Errors: FailedPrecondition
  // if the protection cannot raise its noise or nothing with a known divergence was released.
  absl::Status RaiseNoise();

  // From now on the attack module gets only what LABEL_SIDE_ONLY allows: no hints, no AUC, no auxiliary labels but
  // those that have been sent. The next answer tells the peer so. There is no way back in this run, even if it is
  // continued. ORACLE does not become ROUNDED, whose terms are agreed only with ROUNDED itself. Recorded. Errors:
  // FailedPrecondition if nothing is disclosed.
  absl::Status LowerDisclosure();

  // Also ends the progress line on the terminal.
  absl::Status FinishRecords() override;
  void Ended(const char* ended) override;

  LeakAuditor* auditor() { return auditor_.get(); }
  const ModelState& model() const override { return *training_.model; }
  RunFigures figures() const override { return FiguresOf(training_.result(), *auditor_); }

 private:
  RunTraining(Run* run, std::unique_ptr<LeakAuditor> auditor, Training training, bool is_continued);

  // Shows in the status how often an attack has exceeded its bound.
  void ShowBoundExceeded();
  // Shows in the status what the releases so far add up to, and what remains of the run's limit.
  void ShowAccount();

  // What is disclosed from now on.
  v1::DisclosureLevel disclosure() const;
  void ShowDisclosure();

  // The first batch for which the peer has had no answer yet: changes by the operator begin there.
  ReleaseJournal::Batch NextToBeDecided() const;
  // Before they are sent; once, since a continued run discloses the same ones again.
  absl::Status RecordDisclosed(int labels);
  // Records an event and commits it at once, so that it survives a crash.
  absl::Status RecordAtOnce(const char* event, const std::string& detail);

  // Before it says whether training stops, which reveals labels: checks that no other evaluation was answered before.
  absl::Status JournalEvaluation(const TestEvaluation& evaluation) const;
  // To an evaluation that has counted.
  v1::EvaluateResponse EvaluationAnswer() const;
  // After an epoch's evaluation: early stopping; the weights to keep, and after the last epoch to end with; the
  // checkpoint, unless guesses at attributes are due before it.
  absl::Status AfterEvaluation();
  absl::Status StopEarly();
  // Between steps: all scores of the steps before have been judged, for a peer that writes a checkpoint itself has
  // waited for that before it continues.
  absl::Status WriteDueCheckpoint();
  // Checks that examples may be scored now: auxiliary labels are agreed, all epochs trained.
  absl::Status CheckCompletion(const char* call) const;
  // Checks that attributes may be asked about now: attacks on them are agreed, the epoch is evaluated and due.
  absl::Status CheckAttributeCall(uint32_t epoch, const char* call) const;

  Run* const run_;
  const std::unique_ptr<LeakAuditor> auditor_;
  Training training_;
  ReplayCache replay_;
  std::unique_ptr<EarlyStopper> early_stopper_;  // Null: not configured.
  KeptModel kept_model_;
  bool checkpoint_due_;  // Before the next batch.
  std::optional<TrainingProgress> progress_;
  std::unique_ptr<CompletionAudit> completion_;  // From the first AuxiliaryLabels on.
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_SESSION_RUN_TRAINING_H_
