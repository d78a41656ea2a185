// One training step of the label party, from activations to protected gradients, and what follows once they have left.
#ifndef SPLITVEIL_LABEL_PARTY_SESSION_TRAINER_H_
#define SPLITVEIL_LABEL_PARTY_SESSION_TRAINER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/dataset/feature_table.h"
#include "common/ledger/ledger.h"
#include "common/operations/step_stopwatch.h"
#include "common/schedule/schedule.h"
#include "common/schedule/slice_assembler.h"
#include "label_party/audit/leak_auditor.h"
#include "label_party/policy/release_gate.h"
#include "label_party/protection/gradient_protection.h"
#include "label_party/session/gradients_message.h"
#include "label_party/session/label_state.h"
#include "label_party/session/release_guard.h"
#include "label_party/session/run_result.h"
#include "label_party/top/top_model.h"

#include "splitveil/v1/agreement.pb.h"
#include "splitveil/v1/split_training.pb.h"

namespace splitveil {

struct TrainerParts {
  v1::RunAgreement agreement;              // Canonical.
  std::unique_ptr<FeatureTable> features;  // Own features in aligned order.
  std::vector<uint8_t> labels;             // In aligned order.
  std::vector<float> targets;              // What h trains on instead; GradientProtection::TrainingTargets.
  Schedule schedule;
  std::vector<uint32_t>
      test;  // Aligned positions that are evaluated: those held out; all, under progressive_validation.
  std::unique_ptr<TopModel> model;
  std::unique_ptr<GradientProtection> protection;
  ReleaseGate gate;
  double distance_correlation_weight = 0;  // 0: not regularised.
  double clip_cut_gradients = 0;           // Norm; 0: not clipped.
  std::string resumed_from;                // RUN_ID/EPOCHS of the checkpoint the model came from; empty: none.
  double earlier_sum_kl = 0;               // LabelState::cumulative_sum_kl of that checkpoint.
  LeakAuditor* auditor = nullptr;          // Not owned; must outlive the trainer.
  Ledger* ledger = nullptr;                // Not owned; must outlive the trainer.
};

// The way of a batch: activations -> loss and gradients, slice by slice as they come -> protection of the whole batch
// -> release gate -> bytes; where neither protection nor gate changes anything, each slice's bytes leave as soon as
// they are there. Then Learn updates h, audits the bytes, writes the ledger and gathers the next
// batch's rows, so that the peer never waits for it. Not thread-safe.
class Trainer {
 public:
  explicit Trainer(TrainerParts parts);

  int64_t batches_per_epoch() const { return parts_.schedule.batches_per_epoch(); }
  int64_t batch_rows(int64_t batch) const { return parts_.schedule.batch_rows(batch); }
  // In which a batch of `rows` crosses the wire.
  std::vector<RowRange> Slices(int64_t rows) const {
    return BatchSlices(rows, parts_.agreement.in_flight_batches()).all();
  }
  int64_t test_examples() const { return static_cast<int64_t>(parts_.test.size()); }

  // Takes the next slice of the batch that is coming, or the first one of batch (slice.epoch, slice.batch), which is
  // the caller's to check. Errors: InvalidArgument with field, expected and found where it is not the slice, the shape
  // or the type that is due, or holds values that are not finite; it may be sent again.
  absl::Status Receive(const v1::CutActivations& slice);
  // Computes what has come. What may leave now, protected and encoded: nothing, or slices of the answer, the rest of
  // which comes when the batch is complete (batch_begun() is false then); one `frozen` message without gradients once
  // the release gate has frozen the bottom model. Errors: ResourceExhausted where
  // the release gate halts the run; Internal for non-finite losses or gradients. Nothing may leave after an error.
  absl::StatusOr<SharedGradients> Step();
  // Whether slices of a batch have come, and others are still to come.
  bool batch_begun() const { return coming_.has_value(); }
  // Finishes the latest batch that Step has completed, once: updates h, audits what left, records.
  absl::Status Learn();
  // Where the time of the step under way goes; what happens around Step and Learn is the caller's to lap.
  StepStopwatch& stopwatch() { return stopwatch_; }

  // Logits of test batch `batch` (batch_size aligned test positions each) are added to `evaluation`.
  absl::Status Evaluate(uint32_t batch, ConstMatrixView activations, std::vector<float>& logits);
  // Metrics over all test logits, in test order. Recorded. `epoch` -1: before the first.
  absl::Status FinishEvaluation(int64_t epoch, const std::vector<float>& logits);

  // The training examples: aligned positions, ascending, and their labels.
  std::vector<uint32_t> training_positions() const;
  std::vector<uint8_t> LabelsOf(absl::Span<const uint32_t> positions) const;

  // What a checkpoint holds beside the model, as of the latest Learn.
  LabelState state() const;

  RunResult& result() { return result_; }
  const TopModel& model() const { return *parts_.model; }

 private:
  // Rows of a batch that are computed together.
  struct LocalSlice {
    RowRange rows;
    FeatureBatch features;
  };
  // What this party holds of a batch, before its activations come.
  struct LocalBatch {
    ReleasedBatch released;
    std::vector<LocalSlice> slices;
    std::vector<float> targets;
  };
  // A batch whose activations are coming.
  struct InboundBatch {
    LocalBatch own;
    Matrix activations, clean;  // [batch, cut_width], as far as they have come and been computed.
    std::vector<RowRange> due;  // Slices that are still to come, the next one last.
    size_t computed = 0;        // Slices of `own`.
    SharedGradients sent;       // Slices that have left already.
    double loss_sum = 0;
    int64_t bytes = 0;

    int64_t received_rows() const { return due.empty() ? activations.rows() : due.back().first; }
  };
  struct Pending {
    StepRow row;
    ProtectionRow protection;
    SharedGradients sent;            // Without gradients in a frozen step.
    Matrix clean, activations;       // What was sent was made of, for the audit,
    std::vector<LocalSlice> slices;  // and with the activations for the update of h.

    bool released() const { return sent.front()->has_gradients(); }
  };

  bool frozen() const { return result_.frozen_after_epoch.has_value(); }
  void BeginEpoch();
  LocalBatch GatherOwn(uint32_t epoch, uint32_t batch);
  // Whether the protection has to anticipate the other class for a batch of these labels.
  bool Anticipates(absl::Span<const uint8_t> labels) const;
  // The batch that GatherNext has gathered, or another one.
  LocalBatch TakeOwn(uint32_t epoch, uint32_t batch);
  // Gathers the batch after `row`'s, within its epoch.
  void GatherNext(const StepRow& row);
  // To the configured norm an example, where there is one: all that the protection sees.
  void Clip(Matrix& gradients) const;
  // Until a batch of both classes comes: tells the protection what each example of the batch would send with either
  // label.
  absl::Status PrimeWithOtherClass(const InboundBatch& coming);
  // Whether each slice's gradients may leave before the others are there.
  bool AnswersSliceBySlice() const;
  // Loss and gradients of a slice.
  absl::Status Differentiate(const LocalSlice& slice, InboundBatch& coming);
  // Of a batch that is complete: the regulariser's gradient, clipping.
  absl::Status CompleteGradients(InboundBatch& coming) const;
  // Lets the batch's gradients go through protection and gate, and keeps what Learn needs. All that leaves.
  absl::StatusOr<SharedGradients> Answer(InboundBatch coming);
  // Adds to `pending` what of `clean` may leave and has not left, or freezes.
  absl::Status Release(ConstMatrixView clean, ReleasedBatch batch, Pending& pending);
  absl::Status Note(const GateDecision& decision);
  void ChooseHints(ConstMatrixView clean, ReleasedBatch& batch) const;
  // Adds to `messages` those that are missing of the batch's first `slices`. `gradients`: as they leave, [batch,
  // cut_width].
  absl::Status Encode(ConstMatrixView gradients, const ReleasedBatch& batch, size_t slices,
                      SharedGradients& messages) const;
  // The hint of a batch that has one, into its last slice.
  absl::Status AddHint(const ReleasedBatch& batch, v1::CutGradients& message) const;
  absl::Status Audit(const Pending& pending);
  void Count(const Pending& pending);
  absl::Status RecordAccount(int64_t epoch);

  TrainerParts parts_;
  ReleaseGuard guard_;
  RunResult result_;
  bool both_classes_seen_ = false;
  GateCounts epoch_gate_;  // Decisions in the epoch under way.
  int64_t step_ = 0;
  StepStopwatch stopwatch_;
  std::optional<LocalBatch> next_;
  std::optional<InboundBatch> coming_;
  std::unique_ptr<Pending> pending_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_SESSION_TRAINER_H_
