#include "label_party/session/label_session.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "common/config/agreement.h"
#include "common/config/canonical_message.h"
#include "common/model/export.h"
#include "common/operations/alignment_progress.h"
#include "common/operations/run_facts.h"
#include "common/process/exit_code.h"
#include "common/process/version.h"
#include "common/schedule/party_seed.h"
#include "common/schedule/shared_examples.h"
#include "common/status/status_macros.h"
#include "common/telemetry/log.h"
#include "common/telemetry/one_line.h"

namespace splitveil {
namespace {

using Message = ProtocolState::Message;
using State = ProtocolState::State;

// Whether what failed is the ledger, not the request.
bool IsOfLedger(const absl::Status& status) { return absl::IsInternal(status) || absl::IsDataLoss(status); }

// What the peer hears of a failure of this party's own.
absl::Status FailedInside() { return absl::InternalError("the label party failed; its own log says why"); }

// Errors: FailedPrecondition with the field that differs.
absl::Status CheckAgreement(const v1::RunAgreement& ours, const v1::OpenRequest& request) {
  v1::RunAgreement theirs = request.agreement();
  Canonicalize(theirs);
  const std::string difference = FirstDifference(ours, theirs);
  if (!difference.empty() || request.agreement_sha256() != AsBytes(AgreementSha256(ours))) {
    return absl::FailedPreconditionError(
        absl::StrCat("agreement: the parties differ: ", difference.empty() ? "digest" : difference));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<LabelSession>> LabelSession::Create(LabelSessionOptions options) {
  if (!options.data->has_labels()) {
    return absl::InvalidArgumentError("dataset: expected a label column at the label party, found none");
  }
  if (const std::string& folder = options.config.party().export_dir(); !folder.empty()) {
    SPLITVEIL_RETURN_IF_ERROR(PrepareExport({folder, "label_party"}));
  }
  SPLITVEIL_RETURN_IF_ERROR(CheckTaskOf(options.agreement, *options.data, options.config));
  SPLITVEIL_RETURN_IF_ERROR(CheckLabelsDiffer(options.agreement, *options.data, std::nullopt));
  if (const bool attacks = !options.agreement.attribute_audit().attacks().empty();
      attacks != (options.known_attributes != nullptr)) {
    return absl::InvalidArgumentError(absl::StrCat("attribute_attack: expected ",
                                                   attacks ? "the data that the agreed attacks know" : "none",
                                                   ", found ", attacks ? "none" : "some"));
  }
  if (options.known_attributes != nullptr) {
    SPLITVEIL_RETURN_IF_ERROR(AttributeAudit::Check(options.agreement, options.config, *options.known_attributes));
  }
  SPLITVEIL_RETURN_IF_ERROR(TopModel::Check(TopOptions(options.agreement, options.config, *options.data)));
  SPLITVEIL_ASSIGN_OR_RETURN(
      SeedExchange seed,
      SeedExchange::Create(SeedRole::kLabelParty,
                           SeedContribution(SeedRole::kLabelParty, options.config.party().reproducible_seed())));
  return std::unique_ptr<LabelSession>(new LabelSession(std::move(options), std::move(seed)));
}

LabelSession::LabelSession(LabelSessionOptions options, SeedExchange seed)
    : agreement_(std::move(options.agreement)),
      config_(std::move(options.config)),
      data_(std::move(options.data)),
      known_attributes_(std::move(options.known_attributes)),
      only_continues_(options.only_continues),
      status_(options.status),
      keep_report_(std::move(options.keep_report)),
      seed_(std::move(seed)),
      life_(&agreement_, &config_, std::move(options.checkpoints), std::move(options.ledger_path),
            std::move(options.clock)),
      protection_(std::move(options.protection)),
      replay_(agreement_.in_flight_batches()) {}

void LabelSession::End(RunLifecycle::End end, absl::Status outcome) {
  life_.EndRun(end, std::move(outcome));
  protocol_.Ended();
  ended_.Wake();
}

absl::Status LabelSession::Fail(absl::Status status) {
  End(RunLifecycle::End::kFailed, status);
  return status;
}

absl::Status LabelSession::FailInside(const absl::Status& status) {
  if (status.ok()) {
    return status;
  }
  End(RunLifecycle::End::kFailed, status);
  // What failed inside is not the peer's to read, nor is why the release gate halted the run: that tells of labels.
  return IsHalt(status) ? AsHalt(absl::ResourceExhaustedError("release gate: halted the run")) : FailedInside();
}

absl::StatusOr<v1::OpenResponse> LabelSession::Open(const v1::OpenRequest& request) {
  absl::MutexLock lock(&mutex_);
  if ((protocol_.state() == State::kOpened || protocol_.state() == State::kAligned) && opened_.Is(request)) {
    life_.Heard();
    return opened_.response;
  }
  const bool takes_up = protocol_.IsUnderWay() || (life_.completed() && !farewell_);
  if (takes_up && life_.writes_checkpoints() && CheckAgreement(agreement_, request).ok()) {
    peer_started_again_ = true;
    End(RunLifecycle::End::kFailed, PeerStartedAgain("the non-label party"));
    return absl::UnavailableError("the label party takes the run up again: open it once more");
  }
  SPLITVEIL_RETURN_IF_ERROR(protocol_.Check(Message::kOpen));
  if (absl::Status status = CheckAgreement(agreement_, request); !status.ok()) {
    return Fail(AsRefusal(status));
  }
  if (request.seed_commitment().size() != sizeof(Digest)) {
    return absl::InvalidArgumentError(
        absl::StrCat("seed_commitment: expected ", sizeof(Digest), " bytes, found ", request.seed_commitment().size()));
  }
  if (absl::Status status = life_.ChooseCheckpoint(request); !status.ok()) {
    return Fail(AsRefusal(status));
  }
  const Checkpoint* const continued = life_.continued();
  if (only_continues_ && continued == nullptr) {
    return Fail(AsRefusal(absl::FailedPreconditionError(
        "unfinished: expected a checkpoint of the run that the peer has broken off, found none that both have")));
  }
  const std::string run_id = continued == nullptr ? NewRunId(agreement_.run_name()) : continued->header().run_id();
  const std::string protection = protection_.gradients->name();
  SPLITVEIL_RETURN_IF_ERROR(
      FailInside(life_.BeginLedger(DescribeRun(run_id, "label_party", protection, agreement_, request.version()))));
  absl::StatusOr<std::unique_ptr<AnswerJournal>> journal = life_.OpenJournal();
  SPLITVEIL_RETURN_IF_ERROR(FailInside(journal.status()));
  journal_ = *std::move(journal);
  peer_commitment_ = request.seed_commitment();
  status_->Update([&](v1::GetStatusResponse& status) { status.set_run_id(run_id); });
  protocol_.Opened(run_id);
  v1::OpenResponse response;
  if (continued != nullptr) {
    absl::StatusOr<Continuation> continuation = life_.TakeContinuation(*data_);
    SPLITVEIL_RETURN_IF_ERROR(FailInside(continuation.status()));
    aligned_ = std::move(continuation->aligned);
    continued_seed_ = continuation->seed;
    protocol_.Aligned();
    response.set_continued(continued->name());
    LogInfo("continues ", continued->name(), ", with its aligned examples and its schedule");
  }
  life_.Heard();
  LogInfo("run ", run_id, " opened; ", protection, "; agreement ",
          absl::BytesToHexString(AsBytes(AgreementSha256(agreement_))).substr(0, 16));
  response.set_run_id(run_id);
  response.set_seed_commitment(seed_.commitment());
  response.set_version(Version());
  opened_ = {request.SerializeAsString(), response};
  return response;
}

absl::Status LabelSession::Align(AlignmentChannel& channel) {
  std::string run_id;
  {
    absl::MutexLock lock(&mutex_);
    run_id = protocol_.run_id();
    SPLITVEIL_RETURN_IF_ERROR(protocol_.Check(Message::kAlign, run_id));
    const absl::Status counted = CountAlignment(*life_.ledger(), config_.party().max_alignments());
    if (absl::IsResourceExhausted(counted)) {
      return Fail(AsRefusal(counted));
    }
    SPLITVEIL_RETURN_IF_ERROR(FailInside(counted));
    protocol_.Aligning();
    life_.Heard();
  }
  AlignmentOptions options = AgreedAlignment(agreement_.alignment(), std::move(run_id));
  AlignmentProgress progress(status_);
  options.progress = [&](uint64_t masked, uint64_t total) {
    progress.Report(masked, total);
    absl::MutexLock lock(&mutex_);
    life_.Heard();
  };
  absl::StatusOr<AlignedIds> aligned = AlignIds(data_->ids(), options, channel);
  progress.Finish();
  absl::MutexLock lock(&mutex_);
  if (protocol_.state() != State::kAligning) {
    return absl::CancelledError("the label party has ended the run");
  }
  if (!aligned.ok()) {
    SPLITVEIL_RETURN_IF_ERROR(FailInside(life_.RecordFailedAlignment(aligned.status())));
    return Fail(IsRefusal(aligned.status()) ? AsRefusal(aligned.status()) : aligned.status());
  }
  aligned_ = *std::move(aligned);
  protocol_.Aligned();
  life_.Heard();
  const uint64_t examples = aligned_.rows.size();
  LogInfo("aligned ", examples, " examples; own ids ", data_->rows(), ", the peer's ", aligned_.peer_ids);
  status_->Update([&](v1::GetStatusResponse& status) { status.set_aligned_examples(examples); });
  const int64_t own_ids = data_->rows();
  SPLITVEIL_RETURN_IF_ERROR(FailInside(life_.ledger()->RecordEvent(
      "aligned", absl::StrCat(examples, " common ids of ", own_ids, " own and ", aligned_.peer_ids, " of the peer"))));
  if (absl::Status enough =
          CheckSharedExamples({static_cast<int64_t>(examples), own_ids, static_cast<int64_t>(aligned_.peer_ids)},
                              agreement_.minimum_batch_size());
      !enough.ok()) {
    End(RunLifecycle::End::kFailed, std::move(enough));  // The peer finds the same without being told.
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::StartResponse> LabelSession::Start(const v1::StartRequest& request) {
  absl::MutexLock lock(&mutex_);
  if (protocol_.state() == State::kTraining && training_->result().steps == 0 && started_.Is(request)) {
    life_.Heard();
    return started_.response;
  }
  SPLITVEIL_RETURN_IF_ERROR(protocol_.Check(Message::kStart, request.run_id()));
  if (request.aligned_examples() != aligned_.rows.size() || request.order_sha256() != AsBytes(aligned_.order_sha256)) {
    return Fail(AsRefusal(absl::FailedPreconditionError("aligned order: the parties hold different alignments")));
  }
  const absl::StatusOr<JointSeed> joint = seed_.Combine(peer_commitment_, request.seed_reveal());
  if (!joint.ok()) {
    return Fail(AsRefusal(joint.status()));
  }
  shared_labels_ = CheckLabelsDiffer(agreement_, *data_, aligned_.rows);
  if (!shared_labels_.ok()) {
    LogWarning("this run will exit 2 (the peer is not told): ", shared_labels_.message());
  }
  const bool continues = continued_seed_.has_value();
  const JointSeed seed = continues ? *continued_seed_ : *joint;
  life_.KeepContinuation({seed, aligned_});
  auditor_ = std::make_unique<LeakAuditor>(agreement_, config_.label_side_audit(),
                                           static_cast<int64_t>(aligned_.rows.size()), life_.ledger());
  const double counted_sum_kl = life_.counted_sum_kl();
  absl::StatusOr<Training> training =
      MakeTraining({agreement_, config_, data_, aligned_.rows, seed, request.run_id(), std::move(protection_),
                    life_.TakeCheckpoint(), auditor_.get(), life_.ledger(), journal_.get(), continues, counted_sum_kl});
  SPLITVEIL_RETURN_IF_ERROR(FailInside(training.status()));
  training_ = *std::move(training);
  if (known_attributes_ != nullptr) {
    absl::StatusOr<std::unique_ptr<AttributeAudit>> audit =
        AttributeAudit::Create({agreement_, config_, known_attributes_, *data_, aligned_.rows, life_.ledger()});
    SPLITVEIL_RETURN_IF_ERROR(FailInside(audit.status()));
    attribute_audit_ = *std::move(audit);
  }
  life_.RememberMetrics(training_->result().tests);
  progress_.emplace(status_, agreement_.epochs(), training_->source->batches_per_epoch());
  judge_ = auditor_.get();
  checkpoint_due_ = !continues && !agreement_.progressive_validation();  // So that the alignment is not lost.
  SPLITVEIL_RETURN_IF_ERROR(FailInside(WriteDueCheckpoint()));
  protocol_.Training();
  life_.Heard();
  v1::StartResponse response;
  response.set_seed_reveal(seed_.reveal());
  started_ = {request.SerializeAsString(), response};
  return response;
}

absl::StatusOr<SharedGradients> LabelSession::Train(v1::CutActivations request, bool after_loss) {
  absl::MutexLock lock(&mutex_);
  SPLITVEIL_RETURN_IF_ERROR(protocol_.Check(Message::kTrain, request.run_id()));
  SPLITVEIL_ASSIGN_OR_RETURN(const std::optional<SharedGradients> left_before, replay_.Find(request));
  if (left_before.has_value()) {
    HeardOn(after_loss);
    return *left_before;
  }
  SPLITVEIL_RETURN_IF_ERROR(training_->order->CheckBatch(request.epoch(), request.batch()));
  SPLITVEIL_RETURN_IF_ERROR(LearnLocked());
  SPLITVEIL_RETURN_IF_ERROR(FailInside(WriteDueCheckpoint()));
  TrainingStep& step = *training_->step;
  if (training_->order->at_epoch_start() && !training_->order->batch_begun()) {
    training_->recorder->stopwatch().Restart();  // The evaluation between epochs is no part of a step.
  } else {
    training_->recorder->Lap(&StepTimeRow::wait);
  }
  SPLITVEIL_RETURN_IF_ERROR(step.Receive(request));
  if (attribute_audit_ != nullptr) {
    SPLITVEIL_RETURN_IF_ERROR(FailInside(
        attribute_audit_->TakeTraining(request, training_->source->PositionsOf(request.epoch(), request.batch()))));
  }
  absl::StatusOr<SharedGradients> answer = step.Answer();
  if (absl::IsAlreadyExists(answer.status())) {
    return Fail(AsRefusal(answer.status()));
  }
  SPLITVEIL_RETURN_IF_ERROR(FailInside(answer.status()));
  const bool last = !step.batch_begun();
  replay_.Keep(std::move(request), *answer, last);
  training_->order->SliceTaken(last);
  checkpoint_due_ = last && training_->order->IsCheckpointDue(agreement_.checkpoint_steps());
  HeardOn(after_loss);
  return answer;
}

void LabelSession::HeardOn(bool new_stream) {
  if (new_stream) {
    life_.ConnectionLost();
  }
  life_.Heard();
}

absl::Status LabelSession::Learn() {
  absl::MutexLock lock(&mutex_);
  if (protocol_.state() != State::kTraining) {
    return absl::OkStatus();
  }
  training_->recorder->Lap(&StepTimeRow::wire);
  return LearnLocked();
}

absl::Status LabelSession::LearnLocked() {
  const absl::StatusOr<bool> learned = training_->step->Learn();
  SPLITVEIL_RETURN_IF_ERROR(FailInside(learned.status()));
  if (!*learned) {
    return absl::OkStatus();
  }
  const RunResult& result = training_->result();
  progress_->Report(result.steps, result.trained_examples, result.train_log_loss, auditor_->latest());
  UpdateBoundExceeded();
  life_.Heard();  // While this party worked the peer had to wait.
  return absl::OkStatus();
}

absl::Status LabelSession::Evaluate(const v1::CutActivations& request, Evaluation& evaluation) {
  absl::MutexLock lock(&mutex_);
  SPLITVEIL_RETURN_IF_ERROR(protocol_.Check(Message::kEvaluate, request.run_id()));
  if (training_->order->IsLatestEvaluation(request.epoch())) {  // The answer was lost.
    evaluation.epoch = request.epoch();
    evaluation.repeated = true;
    return absl::OkStatus();
  }
  SPLITVEIL_RETURN_IF_ERROR(training_->order->CheckTestBatch(request.epoch(), request.batch(), evaluation.next_batch));
  SPLITVEIL_ASSIGN_OR_RETURN(const Matrix activations, training_->evaluator->Read(request, evaluation));
  SPLITVEIL_RETURN_IF_ERROR(LearnLocked());
  evaluation.epoch = request.epoch();
  if (attribute_audit_ != nullptr) {
    SPLITVEIL_RETURN_IF_ERROR(
        FailInside(attribute_audit_->TakeTest(request.epoch(), evaluation.next_batch, activations)));
  }
  SPLITVEIL_RETURN_IF_ERROR(FailInside(training_->evaluator->Predict(activations, evaluation)));
  life_.Heard();
  return absl::OkStatus();
}

absl::StatusOr<v1::EvaluateResponse> LabelSession::FinishEvaluation(const Evaluation& evaluation) {
  absl::MutexLock lock(&mutex_);
  SPLITVEIL_RETURN_IF_ERROR(protocol_.Check(Message::kEvaluate, protocol_.run_id()));
  // All of it was sent again before the first stream's end was taken, or it came after that: the same answer.
  if ((evaluation.repeated || evaluation.next_batch > 0) && training_->order->IsLatestEvaluation(evaluation.epoch)) {
    life_.Heard();
    return EvaluationAnswer();
  }
  SPLITVEIL_RETURN_IF_ERROR(
      training_->order->CheckEvaluation(evaluation.epoch, training_->evaluator->examples(evaluation)));
  const bool before_training = agreement_.progressive_validation();
  SPLITVEIL_RETURN_IF_ERROR(
      FailInside(training_->evaluator->Finish(before_training ? -1 : int64_t{evaluation.epoch}, evaluation)));
  training_->order->Evaluated(evaluation.epoch);
  SPLITVEIL_RETURN_IF_ERROR(before_training ? absl::OkStatus() : FailInside(AfterEvaluation()));
  life_.Heard();
  return EvaluationAnswer();
}

v1::EvaluateResponse LabelSession::EvaluationAnswer() const {
  v1::EvaluateResponse response;
  response.set_examples(static_cast<uint64_t>(training_->source->test_examples()));
  response.set_stop_training(training_->order->stopped_early());
  return response;
}

absl::Status LabelSession::AfterEvaluation() {
  absl::Status status;
  if (life_.ShouldStopTraining(training_->result().tests.back()) && !training_->order->trained()) {
    training_->order->StopTraining();
    training_->recorder->result().epochs = training_->order->epoch();
    status = life_.RecordEarlyStop(training_->order->epoch());
  }
  // Before the answer: this party is never behind the other one, whose checkpoint follows it.
  checkpoint_due_ = true;
  status.Update(WriteDueCheckpoint());
  return status;
}

absl::Status LabelSession::WriteDueCheckpoint() {
  if (!std::exchange(checkpoint_due_, false) || !life_.writes_checkpoints()) {
    return absl::OkStatus();
  }
  const TrainingOrder& order = *training_->order;
  return life_.WriteCheckpoint({protocol_.run_id(), order.epoch(), order.batch(), training_->result().steps,
                                auditor_->peer_epochs(), training_->state(), training_->Progress(*auditor_)},
                               *training_->model);
}

absl::StatusOr<v1::ScoreBatchResponse> LabelSession::ScoreBatch(const v1::ScoreBatchRequest& request) {
  // Without the lock, so that the peer does not wait for the step under way.
  SPLITVEIL_RETURN_IF_ERROR(protocol_.Check(Message::kScoreBatch, request.run_id()));
  absl::StatusOr<v1::ScoreBatchResponse> response = judge_.load()->Judge(request);
  // Where the run ended meanwhile, so has its ledger: that is no fault of the request.
  if (protocol_.state() != State::kTraining) {
    return absl::CancelledError("the label party has ended the run");
  }
  if (IsOfLedger(response.status())) {
    absl::MutexLock lock(&mutex_);
    return FailInside(response.status());
  }
  return response;
}

absl::Status LabelSession::CheckCompletion(Message message, const std::string& run_id, const char* call) const {
  SPLITVEIL_RETURN_IF_ERROR(protocol_.Check(message, run_id));
  if (agreement_.audit().auxiliary_labels() == 0 || agreement_.audit().disclosure() != v1::ORACLE) {
    return absl::PermissionDeniedError(absl::StrCat(call, ": expected agreed auxiliary labels, found none"));
  }
  return training_->order->CheckTrained(call);
}

absl::StatusOr<v1::AuxiliaryLabelsResponse> LabelSession::AuxiliaryLabels(const v1::AuxiliaryLabelsRequest& request) {
  absl::MutexLock lock(&mutex_);
  SPLITVEIL_RETURN_IF_ERROR(CheckCompletion(Message::kAuxiliaryLabels, request.run_id(), "AuxiliaryLabels"));
  SPLITVEIL_RETURN_IF_ERROR(LearnLocked());
  if (completion_ == nullptr) {
    completion_ = std::make_unique<CompletionAudit>(CompletionOptions(agreement_, *training_), auditor_.get());
    const int disclosed = completion_->auxiliary().positions_size();
    SPLITVEIL_RETURN_IF_ERROR(FailInside(
        life_.ledger()->RecordEvent("disclosed", absl::StrCat(disclosed, " auxiliary labels to the attack module"))));
  }
  life_.Heard();
  return completion_->auxiliary();
}

absl::StatusOr<v1::ScoreExamplesResponse> LabelSession::ScoreExamples(const v1::ScoreExamplesRequest& request) {
  absl::MutexLock lock(&mutex_);
  SPLITVEIL_RETURN_IF_ERROR(CheckCompletion(Message::kScoreExamples, request.run_id(), "ScoreExamples"));
  if (completion_ == nullptr) {
    return absl::FailedPreconditionError("ScoreExamples: expected auxiliary labels asked for, found none");
  }
  const absl::Status status = completion_->Score(request);
  if (!status.ok()) {
    return IsOfLedger(status) ? FailInside(status) : status;
  }
  life_.Heard();
  return v1::ScoreExamplesResponse();
}

absl::Status LabelSession::CheckAttributeCall(Message message, const std::string& run_id, uint32_t epoch,
                                              const char* call) const {
  SPLITVEIL_RETURN_IF_ERROR(protocol_.Check(message, run_id));
  if (attribute_audit_ == nullptr) {
    return absl::PermissionDeniedError(absl::StrCat(call, ": expected agreed attacks on attributes, found none"));
  }
  SPLITVEIL_RETURN_IF_ERROR(training_->order->CheckAudit(call, epoch));
  return attribute_audit_->CheckDue(call, epoch, training_->order->trained());
}

absl::Status LabelSession::EmbedAuxiliary(const v1::CutActivations& request, Embedding& embedding) {
  absl::MutexLock lock(&mutex_);
  if (!agreement_.attribute_audit().embed_auxiliary()) {
    return absl::PermissionDeniedError("EmbedAuxiliary: expected agreed embed_auxiliary, found none");
  }
  SPLITVEIL_RETURN_IF_ERROR(
      CheckAttributeCall(Message::kEmbedAuxiliary, request.run_id(), request.epoch(), "EmbedAuxiliary"));
  SPLITVEIL_RETURN_IF_ERROR(attribute_audit_->Embed(request, embedding));
  life_.Heard();
  return absl::OkStatus();
}

absl::StatusOr<v1::EmbedAuxiliaryResponse> LabelSession::FinishEmbedding(const Embedding& embedding) {
  absl::MutexLock lock(&mutex_);
  SPLITVEIL_RETURN_IF_ERROR(
      CheckAttributeCall(Message::kEmbedAuxiliary, protocol_.run_id(), embedding.epoch, "EmbedAuxiliary"));
  absl::StatusOr<v1::EmbedAuxiliaryResponse> response = attribute_audit_->FinishEmbedding(embedding);
  if (IsOfLedger(response.status())) {
    return FailInside(response.status());
  }
  SPLITVEIL_RETURN_IF_ERROR(response.status());
  life_.Heard();
  return response;
}

absl::StatusOr<SharedGuesses> LabelSession::GuessAttributes(const v1::GuessAttributesRequest& request) {
  absl::MutexLock lock(&mutex_);
  SPLITVEIL_RETURN_IF_ERROR(
      CheckAttributeCall(Message::kGuessAttributes, request.run_id(), request.epoch(), "GuessAttributes"));
  SPLITVEIL_RETURN_IF_ERROR(attribute_audit_->CheckGuess(request.epoch()));
  SPLITVEIL_RETURN_IF_ERROR(LearnLocked());
  absl::StatusOr<SharedGuesses> guesses = attribute_audit_->Guess(request.epoch());
  SPLITVEIL_RETURN_IF_ERROR(FailInside(guesses.status()));
  life_.Heard();
  return guesses;
}

absl::Status LabelSession::Close(const v1::CloseRequest& request) {
  absl::MutexLock lock(&mutex_);
  if (!request.completed()) {
    SPLITVEIL_RETURN_IF_ERROR(protocol_.Check(Message::kGiveUp, request.run_id()));
    End(RunLifecycle::End::kFailed, absl::UnavailableError("the peer ended the run before it was complete"));
    return absl::OkStatus();
  }
  if (life_.completed() && request.run_id() == protocol_.run_id()) {
    if (request.answered()) {
      farewell_ = true;
      ended_.Wake();
    }
    return FinishRun().ok() ? absl::OkStatus() : FailedInside();
  }
  SPLITVEIL_RETURN_IF_ERROR(protocol_.Check(Message::kClose, request.run_id()));
  SPLITVEIL_RETURN_IF_ERROR(training_->order->CheckComplete());
  SPLITVEIL_RETURN_IF_ERROR(LearnLocked());
  SPLITVEIL_RETURN_IF_ERROR(FailInside(WriteDueCheckpoint()));
  End(RunLifecycle::End::kCompleted, absl::OkStatus());
  return FinishRun().ok() ? absl::OkStatus() : FailedInside();
}

void LabelSession::StreamOpened() {
  absl::MutexLock lock(&mutex_);
  life_.StreamOpened();
}

void LabelSession::StreamClosed() {
  absl::MutexLock lock(&mutex_);
  life_.StreamClosed();
}

void LabelSession::TrainStreamEnded(bool cut_off) {
  absl::MutexLock lock(&mutex_);
  const bool within_epoch =
      training_.has_value() && (!training_->order->at_epoch_start() || training_->order->batch_begun());
  if (cut_off || within_epoch) {
    life_.ConnectionLost();
  }
}

void LabelSession::ConnectionLost() {
  absl::MutexLock lock(&mutex_);
  life_.ConnectionLost();
}

void LabelSession::NoteRefusal(absl::string_view call, const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  if (!life_.ended() && life_.ledger() != nullptr) {
    FailInside(refusals_.Note(call, status, *life_.ledger()))
        .IgnoreError();  // It has ended the run; the peer is answered.
  }
}

bool LabelSession::EndIfDue(bool (*stop)()) {
  absl::MutexLock lock(&mutex_);
  if (life_.ended()) {
    return true;
  }
  if (stop()) {
    // The step whose gradients have left is finished before the ledger is.
    if (!training_.has_value() || LearnLocked().ok()) {
      End(RunLifecycle::End::kStopped, StoppedOnRequest());
    }
  } else if (absl::Status heard = life_.CheckHeard(protocol_.state()); !heard.ok()) {
    End(RunLifecycle::End::kFailed, std::move(heard));
  }
  return life_.ended();
}

absl::Status LabelSession::WaitUntilEnded(bool (*stop)()) {
  while (!EndIfDue(stop)) {
    ended_.Until(SteadyAfter(absl::Milliseconds(100)));
  }
  absl::MutexLock lock(&mutex_);
  absl::Status outcome = FinishRun();
  outcome.Update(shared_labels_);
  return outcome;
}

absl::Status LabelSession::FinishRun() {
  if (finished_.has_value()) {
    return *finished_;
  }
  if (progress_.has_value()) {
    progress_->Finish();
  }
  status_->Update([](v1::GetStatusResponse& status) { status.set_phase("closed"); });
  absl::Status outcome =
      life_.Finish(auditor_.get(), training_.has_value() ? training_->model.get() : nullptr, shared_labels_);
  if (training_.has_value()) {
    training_->recorder->result().ended = life_.end_name();
    if (keep_report_ != nullptr && shared_labels_.ok()) {
      outcome.Update(keep_report_(Report(training_->result(), *auditor_)));
    }
  }
  UpdateBoundExceeded();
  finished_ = outcome;
  return outcome;
}

void LabelSession::AwaitFarewell(absl::Duration limit, bool (*stop)()) {
  const SteadyTime deadline = SteadyAfter(limit);
  while (SteadyNow() < deadline && !stop()) {
    {
      absl::MutexLock lock(&mutex_);
      if (farewell_ || peer_started_again_ || !life_.completed() || !FinishRun().ok()) {
        return;
      }
    }
    ended_.Until(SteadyAfter(absl::Milliseconds(100)));
  }
}

void LabelSession::UpdateBoundExceeded() {
  if (auditor_ != nullptr) {
    const auto exceeded = static_cast<uint64_t>(auditor_->bound_exceeded());
    status_->Update([&](v1::GetStatusResponse& status) { status.set_bound_exceeded(exceeded); });
  }
}

std::optional<RunReport> LabelSession::report() const {
  absl::MutexLock lock(&mutex_);
  if (!training_.has_value()) {
    return std::nullopt;
  }
  return Report(training_->result(), *auditor_);
}

bool LabelSession::peer_started_again() const {
  absl::MutexLock lock(&mutex_);
  return peer_started_again_;
}

bool LabelSession::completed() const {
  absl::MutexLock lock(&mutex_);
  return life_.completed();
}

const ModelState* LabelSession::model() const {
  absl::MutexLock lock(&mutex_);
  return training_.has_value() ? training_->model.get() : nullptr;
}

}  // namespace splitveil
