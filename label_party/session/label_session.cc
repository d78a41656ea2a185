#include "label_party/session/label_session.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

#include "common/config/agreement.h"
#include "common/operations/run_facts.h"
#include "common/process/exit_code.h"
#include "common/process/version.h"
#include "common/schedule/party_seed.h"
#include "common/telemetry/log.h"
#include "common/transport/tensor_codec.h"
#include "label_party/session/trainer_factory.h"

namespace splitveil {
absl::StatusOr<std::unique_ptr<LabelSession>> LabelSession::Create(LabelSessionOptions options) {
  if (options.data.labels.size() != options.data.ids.size()) {
    return absl::InvalidArgumentError("dataset: expected a label column at the label party, found none");
  }
  FeatureShape features;
  features.numeric = static_cast<int64_t>(options.data.numeric.size());
  features.categorical = static_cast<int64_t>(options.data.categorical.size());
  if (absl::Status status = TopModel::Check(TopOptions(options.agreement, options.config, features)); !status.ok()) {
    return status;
  }
  absl::StatusOr<SeedExchange> seed = SeedExchange::Create(
      SeedRole::kLabelParty, SeedContribution(SeedRole::kLabelParty, options.config.party().reproducible_seed()));
  if (!seed.ok()) {
    return seed.status();
  }
  return std::unique_ptr<LabelSession>(new LabelSession(std::move(options), *std::move(seed)));
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

void LabelSession::SetPhase(const char* phase) {
  options_.status->Update([&](v1::GetStatusResponse& status) { status.set_phase(phase); });
}

absl::Status LabelSession::BeginLedger(const v1::OpenRequest& request) {
  const RunRow run =
      DescribeRun(run_id_, "label_party", options_.protection->name(), options_.agreement, request.version());
  absl::StatusOr<std::unique_ptr<Ledger>> ledger =
      splitveil::BeginLedger(options_.ledger_path, run, options_.agreement.audit().grant());
  if (!ledger.ok()) {
    return ledger.status();
  }
  ledger_ = *std::move(ledger);
  return absl::OkStatus();
}

absl::StatusOr<v1::OpenResponse> LabelSession::Open(const v1::OpenRequest& request) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (state_ != State::kWaiting) {
    return absl::FailedPreconditionError("Open: expected no run, found one under way or ended");
  }
  v1::RunAgreement theirs = request.agreement();
  Canonicalize(theirs);
  const std::string difference = FirstDifference(options_.agreement, theirs);
  if (!difference.empty() || request.agreement_sha256() != AsBytes(AgreementSha256(options_.agreement))) {
    return Fail(AsRefusal(absl::FailedPreconditionError(
        absl::StrCat("agreement: the parties differ: ", difference.empty() ? "digest" : difference))));
  }
  if (request.seed_commitment().size() != sizeof(Digest)) {
    return absl::InvalidArgumentError(
        absl::StrCat("seed_commitment: expected ", sizeof(Digest), " bytes, found ", request.seed_commitment().size()));
  }
  run_id_ = NewRunId(options_.agreement.run_name());
  if (absl::Status status = BeginLedger(request); !status.ok()) {
    return FailInside(status);
  }
  peer_commitment_ = request.seed_commitment();
  options_.status->Update([&](v1::GetStatusResponse& status) { status.set_run_id(run_id_); });
  state_ = State::kOpened;
  last_heard_ = absl::Now();
  LogInfo("run ", run_id_, " opened; ", options_.protection->name(), "; agreement ",
          absl::BytesToHexString(AsBytes(AgreementSha256(options_.agreement))).substr(0, 16));
  v1::OpenResponse response;
  response.set_run_id(run_id_);
  response.set_seed_commitment(seed_.commitment());
  response.set_version(Version());
  return response;
}

absl::Status LabelSession::Align(AlignmentChannel& channel) {
  AlignmentOptions options;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (absl::Status status = CheckRun(run_id_, State::kOpened, "Align"); !status.ok()) {
      return status;
    }
    state_ = State::kAligning;
    SetPhase("aligning");
    options.run_id = run_id_;
  }
  options.max_ids = static_cast<uint64_t>(options_.agreement.alignment().max_ids());
  options.chunk_ids = options_.agreement.alignment().chunk_ids();
  options.progress = [this](uint64_t, uint64_t) {
    std::lock_guard<std::mutex> lock(mutex_);
    last_heard_ = absl::Now();
  };
  absl::StatusOr<AlignedIds> aligned = AlignIds(options_.data.ids, options, channel);
  std::lock_guard<std::mutex> lock(mutex_);
  if (state_ != State::kAligning) {
    return absl::CancelledError("the label party has ended the run");
  }
  if (!aligned.ok()) {
    // One attempt a run: each would let the peer try another list of ids on this party's set.
    absl::Status status = ledger_->RecordEvent("alignment_failed", absl::StatusCodeToString(aligned.status().code()));
    const bool malformed = aligned.status().code() == absl::StatusCode::kInvalidArgument ||
                           aligned.status().code() == absl::StatusCode::kFailedPrecondition;
    return Fail(status.ok() ? malformed ? AsRefusal(aligned.status()) : aligned.status() : status);
  }
  aligned_ = *std::move(aligned);
  state_ = State::kAligned;
  last_heard_ = absl::Now();
  LogInfo("aligned ", aligned_.rows.size(), " examples; own ids ", options_.data.ids.size(), ", the peer's ",
          aligned_.peer_ids);
  options_.status->Update([&](v1::GetStatusResponse& status) { status.set_aligned_examples(aligned_.rows.size()); });
  return ledger_->RecordEvent("aligned", absl::StrCat(aligned_.rows.size(), " common ids of ", options_.data.ids.size(),
                                                      " own and ", aligned_.peer_ids, " of the peer"));
}

absl::StatusOr<v1::StartResponse> LabelSession::Start(const v1::StartRequest& request) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (absl::Status status = CheckRun(request.run_id(), State::kAligned, "Start"); !status.ok()) {
    return status;
  }
  if (request.aligned_examples() != aligned_.rows.size() || request.order_sha256() != AsBytes(aligned_.order_sha256)) {
    return Fail(AsRefusal(absl::FailedPreconditionError("aligned order: the parties hold different alignments")));
  }
  const absl::StatusOr<JointSeed> joint = seed_.Combine(peer_commitment_, request.seed_reveal());
  if (!joint.ok()) {
    return Fail(AsRefusal(joint.status()));
  }
  auditor_ = std::make_unique<LeakAuditor>(options_.agreement, options_.config.audit(),
                                           static_cast<int64_t>(aligned_.rows.size()), ledger_.get());
  absl::StatusOr<std::unique_ptr<Trainer>> trainer =
      MakeTrainer({options_.agreement, options_.config, options_.data, aligned_.rows, *joint, run_id_,
                   std::move(options_.protection), auditor_.get(), ledger_.get()});
  if (!trainer.ok()) {
    return FailInside(trainer.status());
  }
  trainer_ = *std::move(trainer);
  options_.data = PartyData();  // The trainer holds all that is needed.
  state_ = State::kTraining;
  progress_ =
      std::make_unique<TrainingProgress>(options_.status, options_.agreement.epochs(), trainer_->batches_per_epoch());
  last_heard_ = absl::Now();
  v1::StartResponse response;
  response.set_seed_reveal(seed_.reveal());
  return response;
}

const LabelSession::Answered* LabelSession::FindAnswered(const v1::CutActivations& request) const {
  const auto found = std::find_if(answered_.begin(), answered_.end(), [&](const Answered& answered) {
    return answered.request.epoch() == request.epoch() && answered.request.batch() == request.batch();
  });
  return found == answered_.end() ? nullptr : &*found;
}

absl::StatusOr<v1::CutGradients> LabelSession::Train(v1::CutActivations request) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (absl::Status status = CheckRun(request.run_id(), State::kTraining, "Train"); !status.ok()) {
    return status;
  }
  if (absl::Status status = LearnLocked(); !status.ok()) {
    return status;
  }
  if (const Answered* answered = FindAnswered(request); answered != nullptr) {
    if (answered->request.activations().data() == request.activations().data()) {
      return answered->response;
    }
    return absl::FailedPreconditionError("activations: this batch was answered for other activations");
  }
  if (request.epoch() != epoch_ || request.batch() != batch_ || epoch_ >= options_.agreement.epochs()) {
    return absl::FailedPreconditionError(absl::StrCat("batch: expected epoch ", epoch_, " batch ", batch_, " of ",
                                                      options_.agreement.epochs(), " epochs, found epoch ",
                                                      request.epoch(), " batch ", request.batch()));
  }
  const absl::StatusOr<Matrix> activations = DecodeMatrix(
      request.activations(),
      {"activations", options_.agreement.wire_dtype(), trainer_->batch_rows(batch_), options_.agreement.cut_width()});
  if (!activations.ok()) {
    return activations.status();
  }
  absl::StatusOr<v1::CutGradients> response =
      trainer_->Step(epoch_, batch_, *activations, static_cast<int64_t>(request.ByteSizeLong()));
  if (!response.ok()) {
    return FailInside(response.status());
  }
  answered_.push_back({std::move(request), *response});
  while (answered_.size() > options_.agreement.in_flight_batches()) {
    answered_.pop_front();
  }
  if (++batch_ == trainer_->batches_per_epoch()) {
    batch_ = 0;
    ++epoch_;
  }
  return response;
}

absl::Status LabelSession::Learn() {
  std::lock_guard<std::mutex> lock(mutex_);
  return state_ == State::kTraining ? LearnLocked() : absl::OkStatus();
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
  }
  return absl::OkStatus();
}

bool LabelSession::ExpectsEvaluationOf(uint32_t epoch) const {
  return batch_ == 0 && epoch + 1 == epoch_ && epoch >= evaluated_epochs_;
}

absl::Status LabelSession::Evaluate(const v1::CutActivations& request, Evaluation& evaluation) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (absl::Status status = CheckRun(request.run_id(), State::kTraining, "Evaluate"); !status.ok()) {
    return status;
  }
  if (absl::Status status = LearnLocked(); !status.ok()) {
    return status;
  }
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
  const absl::StatusOr<Matrix> activations = DecodeMatrix(
      request.activations(), {"activations", options_.agreement.wire_dtype(), rows, options_.agreement.cut_width()});
  if (!activations.ok()) {
    return activations.status();
  }
  evaluation.epoch = request.epoch();
  if (absl::Status status = trainer_->Evaluate(evaluation.next_batch, *activations, evaluation.logits); !status.ok()) {
    return FailInside(status);
  }
  ++evaluation.next_batch;
  return absl::OkStatus();
}

absl::StatusOr<v1::EvaluateResponse> LabelSession::FinishEvaluation(const Evaluation& evaluation) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (absl::Status status = CheckRun(run_id_, State::kTraining, "Evaluate"); !status.ok()) {
    return status;
  }
  // The stream may have begun epochs ago, or another one may have ended since.
  if (!ExpectsEvaluationOf(evaluation.epoch) || evaluation.logits.empty() ||
      evaluation.logits.size() != trainer_->test_examples()) {
    return absl::FailedPreconditionError(absl::StrCat("evaluation: expected the epoch just trained and ",
                                                      trainer_->test_examples(), " test examples, found epoch ",
                                                      evaluation.epoch, " and ", evaluation.logits.size()));
  }
  if (absl::Status status = trainer_->FinishEvaluation(evaluation.epoch, evaluation.logits); !status.ok()) {
    return FailInside(status);
  }
  evaluated_epochs_ = evaluation.epoch + 1;
  v1::EvaluateResponse response;
  response.set_examples(evaluation.logits.size());
  return response;
}

absl::Status LabelSession::Close(const v1::CloseRequest& request) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!request.completed()) {
    if (absl::Status status = CheckRun(request.run_id(), state_, "Close"); !status.ok()) {
      return status;
    }
    (void)Fail(absl::UnavailableError("the peer ended the run before it was complete"));
    return absl::OkStatus();
  }
  if (absl::Status status = CheckRun(request.run_id(), State::kTraining, "Close"); !status.ok()) {
    return status;
  }
  const bool evaluated = evaluated_epochs_ == epoch_ || trainer_->test_examples() == 0;
  if (epoch_ != options_.agreement.epochs() || !evaluated) {
    return absl::FailedPreconditionError(absl::StrCat("Close: expected ", options_.agreement.epochs(),
                                                      " epochs trained and evaluated, found ", epoch_, " and ",
                                                      evaluated_epochs_));
  }
  if (absl::Status status = LearnLocked(); !status.ok()) {
    return status;
  }
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
  SetPhase("closed");
  if (ledger_ != nullptr) {
    absl::Status status = outcome_.ok() ? absl::OkStatus() : ledger_->RecordEvent("ended", outcome_.message());
    if (auditor_ != nullptr) {
      status.Update(auditor_->FinishRun());
    }
    status.Update(ledger_->Finish(ledger_status));
    UpdateBoundExceeded();
    if (outcome_.ok()) {
      outcome_ = status;
    }
  }
  return outcome_;
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
