// The non-label party's side of a run, free of gRPC: it drives; the sequence is drawn in split_training.proto's
// service.
#ifndef SPLITVEIL_NONLABEL_PARTY_SESSION_NONLABEL_SESSION_H_
#define SPLITVEIL_NONLABEL_PARTY_SESSION_NONLABEL_SESSION_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/checkpoint/checkpoint_plan.h"
#include "common/dataset/dataset.h"
#include "common/dataset/feature_table.h"
#include "common/ledger/ledger.h"
#include "common/operations/run_status.h"
#include "common/operations/step_stopwatch.h"
#include "common/operations/training_progress.h"
#include "common/schedule/schedule.h"
#include "common/schedule/slice_assembler.h"
#include "common/schedule/train_test_split.h"
#include "nonlabel_party/bottom/bottom_model.h"
#include "nonlabel_party/session/attack_runner.h"
#include "nonlabel_party/session/epoch_evaluator.h"
#include "nonlabel_party/session/label_party_peer.h"

#include "splitveil/v1/agreement.pb.h"
#include "splitveil/v1/party.pb.h"

namespace splitveil {

struct NonLabelSessionOptions {
  v1::RunAgreement agreement;      // Canonical and valid.
  v1::NonLabelPartyConfig config;  // Valid; defaults set.
  std::string ledger_path;
  std::shared_ptr<const Dataset> data;  // Prepared for the agreement's split (CheckSplit).
  CheckpointPlan checkpoints;
  LabelPartyPeer* peer = nullptr;  // Not owned; must outlive the session.
  RunStatus* status = nullptr;     // Not owned; must outlive the session.
  bool (*stop)() = nullptr;  // Asked between stages and batches, while aligning every 100 ms, there on a thread of
                             // the session; true ends the run cleanly.
};

// One run. Not thread-safe.
class NonLabelSession {
 public:
  explicit NonLabelSession(NonLabelSessionOptions options) : options_(std::move(options)) {}

  // Opens, aligns, trains every epoch until the label party wants no more, closes. OK when complete or stopped on
  // request. The label party is told when the run ends early, and the ledger is finished in every case.
  absl::Status Run();

  // After Run: the model as trained. Null where training never began.
  BottomModel* model() { return model_.get(); }
  // After Run: own rows in the order both parties share.
  const AlignedIds& aligned() const { return aligned_; }

 private:
  absl::Status RunToEnd();
  const char* LedgerStatus(const absl::Status& outcome) const;
  bool StopAsked();  // From then on `stopped_`.
  // That the model and the folder for its export will do, before the first message.
  absl::Status CheckModel();
  absl::Status Open();
  absl::Status Align();
  absl::Status Start();
  absl::Status BuildModel(const Digest& joint_seed, TrainTestSplit split);
  void PrepareEvaluation(std::vector<uint32_t> test);
  absl::Status ResumeFromCheckpoint();
  // Predicts every example before the first epoch, where that is agreed.
  absl::Status ProgressiveValidation();
  absl::Status TrainEpochs();
  // After its training: evaluation and checkpoint. True where the label party wants no further epoch.
  absl::StatusOr<bool> FinishEpoch(uint32_t epoch);
  absl::Status TrainEpoch(uint32_t epoch);
  // In which a batch of `rows` crosses the wire.
  std::vector<RowRange> Slices(int64_t rows) const {
    return BatchSlices(rows, options_.agreement.in_flight_batches()).all();
  }
  // Rows of a batch that are computed together: slices, or all of them.
  std::vector<RowRange> Computed(int64_t rows) const;
  // Gathers the rows of a batch of the epoch under way, unless that is done.
  void GatherRows(uint32_t epoch, uint32_t batch);
  absl::Status SendBatch(uint32_t epoch, uint32_t batch, TrainingStream& stream);
  // Sends the slices that lie in `rows`, whose activations these are.
  absl::Status SendSlices(uint32_t epoch, uint32_t batch, const RowRange& rows, ConstMatrixView activations,
                          TrainingStream& stream);
  absl::Status LearnFromNext(uint32_t epoch, uint32_t batch, TrainingStream& stream);
  // The next slice of the batch of row_, which starts at `first_row`.
  absl::StatusOr<v1::CutGradients> ReceiveSlice(int64_t first_row, TrainingStream& stream);
  // Back-propagates the batch of row_, of whose slices `message` is the first, and updates the model.
  absl::Status Learn(v1::CutGradients message, TrainingStream& stream);
  absl::Status Backpropagate(const RowRange& rows, ConstMatrixView gradients);
  absl::Status StayFrozen(const v1::CutGradients& message);
  // Attacks and records the batch that was learnt from last, once.
  absl::Status FinishStep();
  // Records it, also where the run ends before its attacks do: the label party has recorded it, too.
  absl::Status RecordStep();
  absl::Status CompleteModel();
  // Where the configuration names a folder.
  absl::Status Export() const;
  BottomModelOptions BottomOptions(const FeatureShape& features) const;
  int64_t batches() const { return schedule_->batches_per_epoch(); }

  NonLabelSessionOptions options_;
  std::string run_id_;
  std::string own_reveal_, peer_commitment_;
  AlignedIds aligned_;
  std::vector<uint32_t> train_;  // Aligned positions, ascending.
  std::unique_ptr<FeatureTable> features_;
  std::unique_ptr<Schedule> schedule_;
  std::unique_ptr<BottomModel> model_;
  std::unique_ptr<Ledger> ledger_;
  std::unique_ptr<TrainingProgress> progress_;
  std::unique_ptr<AttackRunner> reporter_;
  std::unique_ptr<EpochEvaluator> evaluator_;
  // A batch whose activations have left and whose gradients have not come.
  struct SentBatch {
    Matrix activations;  // Where an attack reads them.
    int64_t bytes = 0;
  };
  // The rows of the batch that is sent next.
  struct GatheredRows {
    uint32_t batch = 0;
    std::vector<FeatureBatch> slices;  // As Computed.
  };
  std::deque<SentBatch> in_flight_;
  std::optional<GatheredRows> gathered_;
  StepRow row_;             // Of the batch under way.
  bool learnt_ = false;     // row_ waits for FinishStep.
  ReceivedBatch received_;  // What FinishStep attacks; without gradients: nothing.
  StepStopwatch stopwatch_;
  bool frozen_ = false;  // The label party's budget is spent: no gradient comes any more.
  int64_t trained_examples_ = 0;
  bool stopped_ = false;
};

}  // namespace splitveil

#endif  // SPLITVEIL_NONLABEL_PARTY_SESSION_NONLABEL_SESSION_H_
