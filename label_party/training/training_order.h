// Which batch and which evaluation are due in the training of a run.
#ifndef SPLITVEIL_LABEL_PARTY_TRAINING_TRAINING_ORDER_H_
#define SPLITVEIL_LABEL_PARTY_TRAINING_TRAINING_ORDER_H_

#include <cereal/access.hpp>
#include <cstdint>

#include "absl/status/status.h"

namespace splitveil {

// The state kTraining of ProtocolState in detail. Accepts or refuses; does no work. Not thread-safe.
//
//   progressive_validation: evaluation, then batch 0, 1, ... of epoch 0, 1, ...
//   otherwise: batch 0, 1, ... of epoch 0, its evaluation (where anything is held out), batch 0, ... of epoch 1, ...
class TrainingOrder {
 public:
  struct Options {
    uint32_t epochs = 0;  // As agreed.
    int64_t batches_per_epoch = 0;
    int64_t test_examples = 0;
    bool progressive_validation = false;
    bool stops_early = false;  // Then no evaluation may be left out.
  };

  explicit TrainingOrder(const Options& options) : options_(options), epochs_to_train_(options.epochs) {}

  // Whether the next slice may be of this batch. Errors: FailedPrecondition with expected and found.
  absl::Status CheckBatch(uint32_t epoch, uint32_t batch) const;
  // A slice of the batch that is due has been taken, the last one or not.
  void SliceTaken(bool last);

  // Whether test batch `batch` of an evaluation of `epoch` may come, in which `due_batch` is the next one. Error:
  // FailedPrecondition.
  absl::Status CheckTestBatch(uint32_t epoch, uint32_t batch, uint32_t due_batch) const;
  // Whether an evaluation of `epoch` over `examples` counts: the stream may have begun epochs ago, or another one may
  // have ended since. Error: FailedPrecondition.
  absl::Status CheckEvaluation(uint32_t epoch, int64_t examples) const;
  // It has counted.
  void Evaluated(uint32_t epoch);
  // Whether the evaluation of `epoch` has counted, and no batch has come since.
  bool IsLatestEvaluation(uint32_t epoch) const;
  // Whether the label party's attacks on attributes may ask about `epoch` now: its evaluation has counted, and no batch
  // has come since. Error: FailedPrecondition. `call`: named in it.
  absl::Status CheckAudit(const char* call, uint32_t epoch) const;
  // Whether each epoch may be evaluated after its training.
  bool evaluates_epochs() const { return options_.test_examples > 0 && !options_.progressive_validation; }

  // That all epochs are trained. Error: FailedPrecondition. `call`: named in it.
  absl::Status CheckTrained(const char* call) const;
  // That all epochs are trained and, where there is anything to evaluate, evaluated. Error: FailedPrecondition.
  absl::Status CheckComplete() const;

  // No further epoch is due.
  void StopTraining() { epochs_to_train_ = epoch_; }
  bool stopped_early() const { return epochs_to_train_ < options_.epochs; }
  bool trained() const { return epoch_ >= epochs_to_train_; }

  // Epoch of the next batch: as many are trained.
  uint32_t epoch() const { return epoch_; }
  // The next batch: as many of the epoch are trained.
  uint32_t batch() const { return batch_; }
  // No batch of the epoch has been taken as a whole.
  bool at_epoch_start() const { return batch_ == 0; }
  // Whether a checkpoint is due between the latest batch and the next: every `steps` steps (0: never) within an epoch,
  // and at its end where no evaluation follows, after which it would be.
  bool IsCheckpointDue(int64_t steps) const;
  // Some slices of a batch have been taken, but not all.
  bool batch_begun() const { return begun_; }

 private:
  friend class cereal::access;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(epochs_to_train_, epoch_, batch_, evaluated_epochs_, predicted_);
  }

  // Whether `epoch` may be evaluated now.
  bool ExpectsEvaluationOf(uint32_t epoch) const;

  const Options options_;
  uint32_t epochs_to_train_;  // As agreed, or fewer where the training has stopped early.
  uint32_t epoch_ = 0;        // The batch that is due.
  uint32_t batch_ = 0;
  bool begun_ = false;
  uint32_t evaluated_epochs_ = 0;
  bool predicted_ = false;  // Under progressive_validation: the evaluation before the first batch is done.
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_TRAINING_TRAINING_ORDER_H_
