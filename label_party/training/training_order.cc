#include "label_party/training/training_order.h"

#include "absl/strings/str_cat.h"

#include "common/schedule/schedule.h"

namespace splitveil {

absl::Status TrainingOrder::CheckBatch(uint32_t epoch, uint32_t batch) const {
  // Each batch once, in the order of the joint schedule: a peer cannot ask for one example twice (rule 1).
  if (epoch != epoch_ || batch != batch_ || trained()) {
    return absl::FailedPreconditionError(absl::StrCat("batch: expected epoch ", epoch_, " batch ", batch_, " of ",
                                                      epochs_to_train_, " epochs, found epoch ", epoch, " batch ",
                                                      batch));
  }
  // Predictions made after learning would not be progressive, and utility would be overstated.
  if (options_.progressive_validation && !predicted_) {
    return absl::FailedPreconditionError(
        "batch: expected every example to be predicted before the first batch (progressive_validation), found a batch");
  }
  // A peer that left out the evaluations would also keep early stopping from its turn.
  if (options_.stops_early && batch_ == 0 && evaluated_epochs_ != epoch_) {
    return absl::FailedPreconditionError("batch: expected the evaluation of the epoch before, found a batch");
  }
  return absl::OkStatus();
}

void TrainingOrder::SliceTaken(bool last) {
  begun_ = !last;
  if (last && ++batch_ == options_.batches_per_epoch) {
    batch_ = 0;
    ++epoch_;
  }
}

// Between epochs the evaluation decides first, since it may stop the run or choose the model that is kept.
bool TrainingOrder::IsCheckpointDue(int64_t steps) const {
  return batch_ == 0 ? !evaluates_epochs() : IsCheckpointStep(epoch_ * options_.batches_per_epoch + batch_, steps);
}

// Once, and before the next batch: two evaluations of an epoch could be compared with each other.
bool TrainingOrder::ExpectsEvaluationOf(uint32_t epoch) const {
  if (options_.progressive_validation) {
    return !predicted_ && epoch == 0;
  }
  return batch_ == 0 && !begun_ && epoch + 1 == epoch_ && epoch >= evaluated_epochs_;
}

absl::Status TrainingOrder::CheckTestBatch(uint32_t epoch, uint32_t batch, uint32_t due_batch) const {
  return ExpectsEvaluationOf(epoch) && batch == due_batch
             ? absl::OkStatus()
             : absl::FailedPreconditionError(absl::StrCat("evaluation: expected the epoch just trained and test batch ",
                                                          due_batch, ", found epoch ", epoch, " batch ", batch));
}

absl::Status TrainingOrder::CheckEvaluation(uint32_t epoch, int64_t examples) const {
  // Checked again at the end: a stream may have started before another one counted.
  return ExpectsEvaluationOf(epoch) && examples > 0 && examples == options_.test_examples
             ? absl::OkStatus()
             : absl::FailedPreconditionError(absl::StrCat("evaluation: expected the epoch just trained and ",
                                                          options_.test_examples, " test examples, found epoch ", epoch,
                                                          " and ", examples));
}

void TrainingOrder::Evaluated(uint32_t epoch) {
  if (options_.progressive_validation) {
    predicted_ = true;
  } else {
    evaluated_epochs_ = epoch + 1;
  }
}

bool TrainingOrder::IsLatestEvaluation(uint32_t epoch) const {
  // An evaluation is repeated only until the next batch comes, by which the peer shows that it has the answer.
  const bool counted = options_.progressive_validation ? predicted_ && epoch == 0 && epoch_ == 0
                                                       : evaluated_epochs_ == epoch_ && epoch + 1 == epoch_;
  return counted && batch_ == 0 && !begun_;
}

absl::Status TrainingOrder::CheckAudit(const char* call, uint32_t epoch) const {
  return IsLatestEvaluation(epoch) ? absl::OkStatus()
                                   : absl::FailedPreconditionError(absl::StrCat(
                                         call, ": expected the epoch just evaluated, found epoch ", epoch));
}

// Auxiliary labels are granted after the last gradient, which they could otherwise be used against.
absl::Status TrainingOrder::CheckTrained(const char* call) const {
  return epoch_ == epochs_to_train_ ? absl::OkStatus()
                                    : absl::FailedPreconditionError(absl::StrCat(call, ": expected ", epochs_to_train_,
                                                                                 " epochs trained, found ", epoch_));
}

absl::Status TrainingOrder::CheckComplete() const {
  const bool evaluated =
      options_.progressive_validation ? predicted_ : evaluated_epochs_ == epoch_ || !evaluates_epochs();
  return epoch_ == epochs_to_train_ && evaluated
             ? absl::OkStatus()
             : absl::FailedPreconditionError(absl::StrCat("Close: expected ", epochs_to_train_,
                                                          " epochs trained and evaluated, found ", epoch_, " and ",
                                                          evaluated_epochs_));
}

}  // namespace splitveil
