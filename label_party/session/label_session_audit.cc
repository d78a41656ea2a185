// The LeakAudit part of a session: scores of the attack module, and what it is told for them.
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/status/status_macros.h"
#include "label_party/session/label_session.h"

namespace splitveil {

absl::StatusOr<v1::ScoreBatchResponse> LabelSession::ScoreBatch(const v1::ScoreBatchRequest& request) {
  // Unlocked, so that the peer does not wait for the step under way. Run id and auditor stay as they are while the run
  // trains.
  if (state_ != State::kTraining || request.run_id() != run_id_) {
    std::lock_guard<std::mutex> lock(mutex_);
    SPLITVEIL_RETURN_IF_ERROR(CheckRun(request.run_id(), State::kTraining, "ScoreBatch"));
  }
  absl::StatusOr<v1::ScoreBatchResponse> response = auditor_->Judge(request);
  // Where the run ended meanwhile, so has its ledger: that is no fault of the request.
  if (state_ != State::kTraining) {
    return absl::CancelledError("the label party has ended the run");
  }
  if (absl::IsInternal(response.status())) {
    std::lock_guard<std::mutex> lock(mutex_);
    return FailInside(response.status());  // The ledger, not the request.
  }
  return response;
}

absl::Status LabelSession::CheckTrained(const std::string& run_id, const char* call) {
  SPLITVEIL_RETURN_IF_ERROR(CheckRun(run_id, State::kTraining, call));
  if (options_.agreement.audit().auxiliary_labels() == 0 || options_.agreement.audit().disclosure() != v1::ORACLE) {
    return absl::PermissionDeniedError(absl::StrCat(call, ": expected agreed auxiliary labels, found none"));
  }
  if (epoch_ != epochs_to_train_) {
    return absl::FailedPreconditionError(
        absl::StrCat(call, ": expected ", epochs_to_train_, " epochs trained, found ", epoch_));
  }
  return LearnLocked();
}

absl::StatusOr<v1::AuxiliaryLabelsResponse> LabelSession::AuxiliaryLabels(const v1::AuxiliaryLabelsRequest& request) {
  std::lock_guard<std::mutex> lock(mutex_);
  SPLITVEIL_RETURN_IF_ERROR(CheckTrained(request.run_id(), "AuxiliaryLabels"));
  if (completion_ == nullptr) {
    CompletionAudit::Options options;
    options.auxiliary_labels = options_.agreement.audit().auxiliary_labels();
    options.max_chunk = options_.agreement.batch_size();
    options.epoch = epoch_ - 1;
    options.positions = trainer_->training_positions();
    options.labels = trainer_->LabelsOf(options.positions);
    completion_ = std::make_unique<CompletionAudit>(std::move(options), auditor_.get());
    const int disclosed = completion_->auxiliary().positions_size();
    if (absl::Status status =
            ledger_->RecordEvent("disclosed", absl::StrCat(disclosed, " auxiliary labels to the attack module"));
        !status.ok()) {
      return FailInside(status);
    }
  }
  return completion_->auxiliary();
}

absl::StatusOr<v1::ScoreExamplesResponse> LabelSession::ScoreExamples(const v1::ScoreExamplesRequest& request) {
  std::lock_guard<std::mutex> lock(mutex_);
  absl::Status status = CheckTrained(request.run_id(), "ScoreExamples");
  if (status.ok() && completion_ == nullptr) {
    status = absl::FailedPreconditionError("ScoreExamples: expected auxiliary labels asked for, found none");
  }
  if (status.ok()) {
    status = completion_->Score(request);
    status = absl::IsInternal(status) ? FailInside(status) : status;  // The ledger, not the request.
  }
  return status.ok() ? absl::StatusOr<v1::ScoreExamplesResponse>(v1::ScoreExamplesResponse()) : status;
}

void LabelSession::UpdateBoundExceeded() {
  if (auditor_ != nullptr) {
    options_.status->Update([this](v1::GetStatusResponse& status) {
      status.set_bound_exceeded(static_cast<uint64_t>(auditor_->bound_exceeded()));
    });
  }
}

}  // namespace splitveil
