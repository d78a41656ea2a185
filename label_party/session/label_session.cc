#include "label_party/session/label_session.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

#include "common/config/agreement.h"
#include "common/model/export.h"
#include "common/operations/run_facts.h"
#include "common/process/exit_code.h"
#include "common/process/version.h"
#include "common/schedule/party_seed.h"
#include "common/status/status_macros.h"
#include "common/telemetry/log.h"
#include "label_party/session/trainer_factory.h"

namespace splitveil {
absl::StatusOr<std::unique_ptr<LabelSession>> LabelSession::Create(LabelSessionOptions options) {
  if (!options.data->has_labels()) {
    return absl::InvalidArgumentError("dataset: expected a label column at the label party, found none");
  }
  if (const std::string& folder = options.config.party().export_dir(); !folder.empty()) {
    SPLITVEIL_RETURN_IF_ERROR(PrepareExport({folder, "label_party"}));
  }
  const TopModelOptions model = TopOptions(options.agreement, options.config, options.data->features());
  SPLITVEIL_RETURN_IF_ERROR(TopModel::Check(model));
  SPLITVEIL_ASSIGN_OR_RETURN(
      SeedExchange seed,
      SeedExchange::Create(SeedRole::kLabelParty,
                           SeedContribution(SeedRole::kLabelParty, options.config.party().reproducible_seed())));
  return std::unique_ptr<LabelSession>(new LabelSession(std::move(options), std::move(seed)));
}

LabelSession::LabelSession(LabelSessionOptions options, SeedExchange seed)
    : options_(std::move(options)), seed_(std::move(seed)), last_heard_(absl::Now()) {}

absl::Status LabelSession::CheckRun(const std::string& run_id, State expected, const char* call) {
  if (state_ == State::kClosed || state_ == State::kFailed) {
    return absl::CancelledError("the label party has ended the run");
  }
  if (state_ == State::kWaiting) {
    return absl::FailedPreconditionError(absl::StrCat(call, ": expected an open run, found none"));
  }
  if (run_id != run_id_) {
    return absl::InvalidArgumentError(absl::StrCat(call, ": run_id: expected that of the open run, found another"));
  }
  if (state_ != expected) {
    return absl::FailedPreconditionError(absl::StrCat(call, ": out of order in this state of the run"));
  }
  last_heard_ = absl::Now();
  return absl::OkStatus();
}

absl::Status LabelSession::Fail(absl::Status status) {
  state_ = State::kFailed;
  outcome_ = status;
  ended_.notify_all();
  return status;
}

absl::Status LabelSession::FailInside(absl::Status status) {
  const absl::Status halt = Fail(std::move(status));
  // What failed inside is not the peer's to read, nor is why the release gate halted the run: that tells of labels.
  return IsHalt(halt) ? AsHalt(absl::ResourceExhaustedError("release gate: halted the run"))
                      : absl::InternalError("the label party failed; its own log says why");
}

const LabelSession::ReplayEntry* LabelSession::FindTaken(const v1::CutActivations& request) const {
  const auto found = std::find_if(taken_.begin(), taken_.end(), [&](const ReplayEntry& taken) {
    return taken.epoch == request.epoch() && taken.batch == request.batch();
  });
  return found == taken_.end() ? nullptr : &*found;
}

absl::StatusOr<SharedGradients> LabelSession::Repeat(const ReplayEntry& taken, const v1::CutActivations& request) {
  const auto slice = taken.slices.find(request.first_row());
  if (slice == taken.slices.end() || slice->second.activations != request.activations().data()) {
    return absl::FailedPreconditionError("activations: expected those that were taken for this batch, found others");
  }
  return slice->second.answer;
}

absl::StatusOr<SharedGradients> LabelSession::Train(v1::CutActivations request) {
  std::lock_guard<std::mutex> lock(mutex_);
  SPLITVEIL_RETURN_IF_ERROR(CheckRun(request.run_id(), State::kTraining, "Train"));
  SPLITVEIL_RETURN_IF_ERROR(LearnLocked());
  const ReplayEntry* taken = FindTaken(request);
  if (taken != nullptr && (taken->complete || taken->slices.count(request.first_row()) > 0)) {
    return Repeat(*taken, request);
  }
  if (request.epoch() != epoch_ || request.batch() != batch_ || epoch_ >= epochs_to_train_) {
    return absl::FailedPreconditionError(absl::StrCat("batch: expected epoch ", epoch_, " batch ", batch_, " of ",
                                                      epochs_to_train_, " epochs, found epoch ", request.epoch(),
                                                      " batch ", request.batch()));
  }
  SPLITVEIL_RETURN_IF_ERROR(CheckMayTrain());
  StepStopwatch& stopwatch = trainer_->stopwatch();
  if (batch_ == 0 && !batch_begun()) {
    stopwatch.Restart();  // The evaluation between epochs is no part of a step.
  } else {
    stopwatch.Lap(&StepTimeRow::wait);
  }
  SPLITVEIL_RETURN_IF_ERROR(trainer_->Receive(request));
  if (!batch_begun()) {
    taken_.push_back({epoch_, batch_, {}});
  }
  ReplayEntry& taking = taken_.back();
  ReplaySlice& slice = taking.slices[request.first_row()];
  slice.activations = std::move(*request.mutable_activations()->mutable_data());
  absl::StatusOr<SharedGradients> response = trainer_->Step();
  if (!response.ok()) {
    return FailInside(response.status());
  }
  slice.answer = *response;
  taking.complete = !trainer_->batch_begun();
  if (!taking.complete) {
    return response;
  }
  while (taken_.size() > options_.agreement.in_flight_batches()) {
    taken_.pop_front();
  }
  if (++batch_ == trainer_->batches_per_epoch()) {
    batch_ = 0;
    ++epoch_;
  }
  return response;
}

absl::Status LabelSession::Learn() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (state_ != State::kTraining) {
    return absl::OkStatus();
  }
  trainer_->stopwatch().Lap(&StepTimeRow::wire);
  return LearnLocked();
}

absl::Status LabelSession::LearnLocked() {
  const RunResult& result = trainer_->result();
  const int64_t steps_before = result.steps;
  if (absl::Status status = trainer_->Learn(); !status.ok()) {
    return FailInside(status);
  }
  last_heard_ = absl::Now();
  if (result.steps != steps_before) {
    progress_->Report(result.steps, result.trained_examples, result.train_log_loss, auditor_->latest());
    UpdateBoundExceeded();
    if (batch_ == 0 && !EvaluatesEpochs()) {
      if (absl::Status status = WriteCheckpoint(); !status.ok()) {
        return FailInside(status);
      }
    }
  }
  return absl::OkStatus();
}

absl::Status LabelSession::Close(const v1::CloseRequest& request) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!request.completed()) {
    SPLITVEIL_RETURN_IF_ERROR(CheckRun(request.run_id(), state_, "Close"));
    (void)Fail(absl::UnavailableError("the peer ended the run before it was complete"));
    return absl::OkStatus();
  }
  SPLITVEIL_RETURN_IF_ERROR(CheckRun(request.run_id(), State::kTraining, "Close"));
  const bool evaluated = evaluated_epochs_ == epoch_ || !EvaluatesEpochs();
  if (epoch_ != epochs_to_train_ || !evaluated) {
    return absl::FailedPreconditionError(absl::StrCat("Close: expected ", epochs_to_train_,
                                                      " epochs trained and evaluated, found ", epoch_, " and ",
                                                      evaluated_epochs_));
  }
  SPLITVEIL_RETURN_IF_ERROR(LearnLocked());
  state_ = State::kClosed;
  completed_ = true;
  ended_.notify_all();
  return absl::OkStatus();
}

absl::Duration LabelSession::SilenceLimit() const {
  const v1::Deadlines& deadlines = options_.agreement.deadlines();
  switch (state_) {
    case State::kWaiting:
      return absl::Seconds(deadlines.connect_seconds());
    case State::kAligning:
    case State::kAligned:
      return absl::Seconds(deadlines.alignment_chunk_seconds());
    default:
      return absl::Seconds(deadlines.step_seconds());
  }
}

absl::Status LabelSession::WaitUntilEnded(bool (*stop)()) {
  std::unique_lock<std::mutex> lock(mutex_);
  const char* ledger_status = "completed";
  while (state_ != State::kClosed && state_ != State::kFailed) {
    if (stop()) {
      // The step whose gradients have left is finished before the ledger is.
      if (trainer_ == nullptr || LearnLocked().ok()) {
        ledger_status = "stopped";
        state_ = State::kClosed;
      }
      break;
    }
    if (const absl::Duration silence = absl::Now() - last_heard_; silence > SilenceLimit()) {
      (void)Fail(absl::UnavailableError(absl::StrCat("the non-label party: expected to hear from it within ",
                                                     absl::FormatDuration(SilenceLimit()), ", found silence")));
      break;
    }
    ended_.wait_for(lock, std::chrono::milliseconds(100));
  }
  if (progress_ != nullptr) {
    progress_->Finish();
  }
  if (state_ == State::kFailed) {
    ledger_status = IsHalt(outcome_) ? "halted" : "failed";
  }
  options_.status->Update([](v1::GetStatusResponse& status) { status.set_phase("closed"); });
  if (ledger_ != nullptr) {
    absl::Status status = outcome_.ok() ? absl::OkStatus() : ledger_->RecordEvent("ended", outcome_.message());
    if (auditor_ != nullptr) {
      status.Update(auditor_->FinishRun());
    }
    // The training is complete and stays so where only the export fails.
    const absl::Status exported = Export();
    status.Update(exported.ok() ? exported : ledger_->RecordEvent("export_failed", exported.message()));
    status.Update(ledger_->Finish(ledger_status));
    UpdateBoundExceeded();
    if (outcome_.ok()) {
      outcome_ = status.ok() ? exported : status;
    }
  }
  return outcome_;
}

absl::Status LabelSession::Export() const {
  const std::string& folder = options_.config.party().export_dir();
  if (folder.empty() || !completed_ || !outcome_.ok()) {
    return absl::OkStatus();
  }
  return trainer_->model().ExportTo(folder);
}

std::string LabelSession::result_json() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return trainer_ == nullptr ? "{}" : ResultJson(trainer_->result(), *auditor_);
}

bool LabelSession::completed() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return outcome_.ok() && completed_;
}

}  // namespace splitveil
