// One training step of the label party, from activations to protected gradients, and what follows once they were sent.
#ifndef SPLITVEIL_LABEL_PARTY_TRAINING_TRAINING_STEP_H_
#define SPLITVEIL_LABEL_PARTY_TRAINING_TRAINING_STEP_H_

#include <cereal/access.hpp>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/checkpoint/release_journal.h"
#include "common/crypto/digest.h"
#include "common/matrix/matrix.h"
#include "common/schedule/slice_assembler.h"
#include "label_party/audit/leak_auditor.h"
#include "label_party/top/top_model.h"
#include "label_party/training/batch_source.h"
#include "label_party/training/gradients_message.h"
#include "label_party/training/release_guard.h"
#include "label_party/training/step_recorder.h"

#include "splitveil/v1/split_training.pb.h"

namespace splitveil {

struct TrainingStepOptions {
  int64_t cut_width = 0;
  v1::DataType wire_dtype = v1::FLOAT32;
  bool discloses_hints = false;            // Disclosure level ORACLE.
  double distance_correlation_weight = 0;  // 0: not regularised.
  double clip_cut_gradients = 0;           // Norm; 0: not clipped.
  bool releases_posterior = false;         // See ReleasingHead.
  ReleaseJournal* journal = nullptr;       // Not owned; must outlive the step. Null: the run cannot be continued.
};

// Receive: activations come, slice by slice. Answer, from top to bottom: loss and gradients of the rows that are here,
// regulariser and clipping, protection and release gate, bytes; where neither protection nor gate changes anything,
// each slice's bytes are sent as soon as they are there. Learn, once they were sent: the update of h, the audit of the
// bytes, the ledger, the next batch's rows, so that the peer never waits for it. Not thread-safe.
class TrainingStep {
 public:
  // None is owned; all must outlive this.
  TrainingStep(const TrainingStepOptions& options, BatchSource* source, TopTrainer* model, ReleaseGuard* guard,
               LeakAuditor* auditor, StepRecorder* recorder);

  // Takes the next slice of the batch that is coming, or the first one of batch (slice.epoch, slice.batch), which is
  // the caller's to check. Errors: as SliceAssembler::Add; then nothing has changed, and it may be sent again.
  absl::Status Receive(const v1::CutActivations& slice);

  // Computes what has come. What may be sent now, protected and encoded: nothing, or slices of the answer, the rest of
  // which comes when the batch is complete (batch_begun() is false then); one `frozen` message without gradients once
  // the release gate has frozen the bottom model. Errors: ResourceExhausted where the release gate halts the run;
  // Internal for non-finite losses or gradients. Nothing may be sent after an error.
  absl::StatusOr<SharedGradients> Answer();

  // Whether slices of a batch have come, and others are still to come.
  bool batch_begun() const { return inbound_.has_value(); }

  // From this batch on, the one whose slices are coming included, neither a hint leaves nor is an answer to scores due,
  // and every answer says so.
  void LowerDisclosureFrom(uint32_t epoch, uint32_t batch) { lowered_from_ = {epoch, batch}; }
  bool is_disclosure_lowered() const { return lowered_from_.has_value(); }

  // Secret, CompletionAudit's: of the run, however often it is interrupted.
  Digest AuxiliaryKey() const;

  // Finishes the latest batch that Answer has completed, once. True where there was one.
  absl::StatusOr<bool> Learn();

 private:
  friend class cereal::access;
  // Between steps.
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(hint_key_);
  }

  // What the audit needs to tell by how much a label moves each row.
  struct HeadOutputs {
    std::vector<float> predictions, residuals;  // [batch * outputs], see TopStep.
    Matrix unclipped;                           // Clean gradients before they were clipped; empty where nothing clips.
    Matrix directions;                          // TopTrainer::OutputDirections, where they were asked for; else empty.
  };
  // A batch whose activations are coming.
  struct InboundBatch {
    StepRow row;  // Step, epoch, batch, examples.
    LocalBatch own;
    SliceAssembler activations;
    Matrix clean;               // [batch, cut_width], as far as computed.
    HeadOutputs head = {};      // As far as computed, too.
    NoisePlan plan = {};        // By which it was protected.
    size_t computed = 0;        // Of own.features.
    double loss_sum = 0;        // Of the examples computed.
    SharedGradients sent = {};  // Slices that were sent,
    int64_t sent_rows = 0;      // and their rows.
    int64_t bytes = 0;          // Received.
  };
  // One that has been answered and is to be learnt from.
  struct AnsweredBatch {
    StepRecord record;
    SharedGradients sent;                // Without gradients in a frozen step.
    Matrix clean, activations;           // What was sent was made of, for the audit,
    std::vector<FeatureBatch> features;  // and with the activations for the update of h.
    HeadOutputs head;
    NoisePlan plan;
  };

  // The batch whose first slice `activations` has taken.
  InboundBatch Begin(const v1::CutActivations& slice, SliceAssembler activations);
  // Loss and clean gradients of rows that a model computes together.
  absl::Status Differentiate(const RowRange& rows, InboundBatch& batch);
  TrainingTargets TargetsOf(const LocalBatch& own, const RowRange& rows) const;
  // Whether each slice's gradients may be sent before the others are there.
  bool AnswersSliceBySlice() const;
  // Of a batch that is complete: the regulariser's gradient, clipping.
  absl::Status RegulariseAndClip(InboundBatch& batch) const;
  // Whether the batch is answered for the same activations alone, with the same bytes, however often the run is broken
  // off: what nothing is drawn for is not worth averaging.
  bool IsJournalled(const InboundBatch& batch) const;
  // Before anything is decided of a batch that has come: that it came with no other activations before. Of one that
  // leaves as it is, that something unprotected leaves.
  absl::Status JournalActivations(const InboundBatch& batch) const;
  // Before the answer is sent: checks that no different one was sent before.
  absl::Status JournalAnswer(const InboundBatch& batch, bool answers_scores) const;
  // Through protection and gate; then what may be sent and was not is encoded, or the run freezes.
  absl::StatusOr<ProtectionRow> Release(InboundBatch& batch);
  // Rows [sent_rows, end) of `gradients` [batch, cut_width], as they are sent.
  absl::Status Encode(ConstMatrixView gradients, int64_t end, InboundBatch& batch) const;
  void EncodeFrozen(InboundBatch& batch) const;
  static AnsweredBatch Answered(InboundBatch batch, ProtectionRow protection);
  absl::Status Audit(AnsweredBatch& batch);
  // v of each row (see ReleasingHead), [batch, outputs * cut_width], which the batch then lacks; empty where a
  // regulariser's gradients were added.
  Matrix LabelDirections(AnsweredBatch& batch) const;

  const TrainingStepOptions options_;
  BatchSource* const source_;
  TopTrainer* const model_;
  ReleaseGuard* const guard_;
  LeakAuditor* const auditor_;
  StepRecorder* const recorder_;
  Digest hint_key_;                                            // Secret, of the run: which labels are disclosed.
  std::optional<std::pair<uint32_t, uint32_t>> lowered_from_;  // Epoch, batch; kept in the journal.
  std::optional<InboundBatch> inbound_;
  std::optional<AnsweredBatch> answered_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_TRAINING_TRAINING_STEP_H_
