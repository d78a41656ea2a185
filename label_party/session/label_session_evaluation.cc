// The evaluations of a run, and what follows from them: early stopping, checkpoints.
#include <algorithm>

#include "absl/strings/str_cat.h"

#include "common/status/status_macros.h"
#include "common/telemetry/log.h"
#include "common/transport/tensor_codec.h"
#include "label_party/session/label_session.h"

namespace splitveil {

bool LabelSession::EvaluatesEpochs() const {
  return trainer_->test_examples() > 0 && !options_.agreement.progressive_validation();
}

bool LabelSession::ExpectsEvaluationOf(uint32_t epoch) const {
  if (options_.agreement.progressive_validation()) {
    return !predicted_ && epoch == 0;
  }
  return batch_ == 0 && !batch_begun() && epoch + 1 == epoch_ && epoch >= evaluated_epochs_;
}

absl::Status LabelSession::CheckMayTrain() const {
  if (options_.agreement.progressive_validation() && !predicted_) {
    return absl::FailedPreconditionError(
        "batch: expected every example to be predicted before the first batch (progressive_validation), found a batch");
  }
  // A peer that left out the evaluations would also keep early stopping from its turn.
  if (early_stopper_ != nullptr && batch_ == 0 && evaluated_epochs_ != epoch_) {
    return absl::FailedPreconditionError("batch: expected the evaluation of the epoch before, found a batch");
  }
  return absl::OkStatus();
}

absl::Status LabelSession::Evaluate(const v1::CutActivations& request, Evaluation& evaluation) {
  std::lock_guard<std::mutex> lock(mutex_);
  SPLITVEIL_RETURN_IF_ERROR(CheckRun(request.run_id(), State::kTraining, "Evaluate"));
  SPLITVEIL_RETURN_IF_ERROR(LearnLocked());
  if (!ExpectsEvaluationOf(request.epoch()) || request.batch() != evaluation.next_batch) {
    return absl::FailedPreconditionError(absl::StrCat("evaluation: expected the epoch just trained and test batch ",
                                                      evaluation.next_batch, ", found epoch ", request.epoch(),
                                                      " batch ", request.batch()));
  }
  const int64_t rows = std::min<int64_t>(options_.agreement.batch_size(),
                                         trainer_->test_examples() - static_cast<int64_t>(evaluation.logits.size()));
  if (rows <= 0) {
    return absl::FailedPreconditionError("evaluation: expected no more test examples, found a further batch");
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const Matrix activations,
                             DecodeMatrix(request.activations(), {"activations", options_.agreement.wire_dtype(), rows,
                                                                  options_.agreement.cut_width()}));
  evaluation.epoch = request.epoch();
  if (absl::Status status = trainer_->Evaluate(evaluation.next_batch, activations, evaluation.logits); !status.ok()) {
    return FailInside(status);
  }
  ++evaluation.next_batch;
  return absl::OkStatus();
}

absl::StatusOr<v1::EvaluateResponse> LabelSession::FinishEvaluation(const Evaluation& evaluation) {
  std::lock_guard<std::mutex> lock(mutex_);
  SPLITVEIL_RETURN_IF_ERROR(CheckRun(run_id_, State::kTraining, "Evaluate"));
  // The stream may have begun epochs ago, or another one may have ended since.
  if (!ExpectsEvaluationOf(evaluation.epoch) || evaluation.logits.empty() ||
      evaluation.logits.size() != trainer_->test_examples()) {
    return absl::FailedPreconditionError(absl::StrCat("evaluation: expected the epoch just trained and ",
                                                      trainer_->test_examples(), " test examples, found epoch ",
                                                      evaluation.epoch, " and ", evaluation.logits.size()));
  }
  const bool before_training = options_.agreement.progressive_validation();
  absl::Status status = trainer_->FinishEvaluation(before_training ? -1 : int64_t{evaluation.epoch}, evaluation.logits);
  if (before_training) {
    predicted_ = true;
  } else {
    evaluated_epochs_ = evaluation.epoch + 1;
    status.Update(StopWhereItHelpsNoMore());
    // Before the answer: this party is never behind the other one, whose checkpoint follows it.
    status.Update(WriteCheckpoint());
  }
  if (!status.ok()) {
    return FailInside(status);
  }
  v1::EvaluateResponse response;
  response.set_examples(evaluation.logits.size());
  response.set_stop_training(epochs_to_train_ < options_.agreement.epochs());
  return response;
}

absl::Status LabelSession::StopWhereItHelpsNoMore() {
  RunResult& result = trainer_->result();
  if (early_stopper_ == nullptr || !early_stopper_->ShouldStop(result.tests.back()) || epoch_ >= epochs_to_train_) {
    return absl::OkStatus();
  }
  epochs_to_train_ = epoch_;
  result.epochs = epoch_;
  LogInfo("stopped early after epoch ", epoch_, ": ", early_stopper_->Reason());
  return ledger_->RecordEvent("early_stopping", absl::StrCat("after epoch ", epoch_, ": ", early_stopper_->Reason()));
}

absl::Status LabelSession::WriteCheckpoint() {
  if (options_.checkpoints.path.empty()) {
    return absl::OkStatus();
  }
  const v1::LabelPartyState state = ToProto(trainer_->state());
  absl::Status status = options_.checkpoints.Write(run_id_, epoch_, &state, trainer_->model().TrainingState(),
                                                   /*keep_previous=*/true);
  return status.ok() ? ledger_->RecordEvent("checkpoint", absl::StrCat("of ", epoch_, " epochs")) : status;
}

}  // namespace splitveil
