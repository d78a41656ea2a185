#include "label_party/session/label_session.h"

#include <utility>

#include "absl/time/time.h"

#include "common/model/export.h"
#include "common/operations/run_status.h"
#include "common/process/exit_code.h"
#include "common/schedule/schedule.h"
#include "common/status/status_macros.h"
#include "label_party/session/run_prediction.h"
#include "label_party/training/label_checks.h"

namespace splitveil {

using Cause = RunEnd::Cause;
using Message = ProtocolState::Message;
using State = ProtocolState::State;

namespace {

// What training needs, and a run that only predicts does not.
absl::Status CheckTraining(const LabelSessionOptions& options) {
  if (!options.data->has_labels()) {
    return absl::InvalidArgumentError("dataset: the label party's table has no label column");
  }
  SPLITVEIL_RETURN_IF_ERROR(CheckTaskOf(options.agreement, *options.data, options.config));
  for (const auto& initial : options.checkpoints.initial) {
    SPLITVEIL_RETURN_IF_ERROR(CheckInitialHead(options.config, initial->header().label_releases()));
    SPLITVEIL_ASSIGN_OR_RETURN(const LabelState released, LabelStateFrom(initial->header().label_party()));
    SPLITVEIL_RETURN_IF_ERROR(CheckInitialIsCounted(options.config, options.data->task(), initial->header(), released));
  }
  return CheckLabelsDiffer(options.agreement, *options.data, std::nullopt);
}

}  // namespace

absl::StatusOr<std::unique_ptr<LabelSession>> LabelSession::Create(LabelSessionOptions options) {
  if (const std::string& folder = options.config.party().export_dir(); !folder.empty()) {
    SPLITVEIL_RETURN_IF_ERROR(PrepareExport({folder, "label_party"}));
  }
  // All checks that need no peer, so that a faulty configuration fails at once and not when the peer connects.
  if (options.agreement.mode() != v1::RunAgreement::PREDICT) {
    SPLITVEIL_RETURN_IF_ERROR(CheckTraining(options));
  } else if (const std::string& path = options.config.predictions_path(); !path.empty()) {
    SPLITVEIL_RETURN_IF_ERROR(CheckPredictionPath(path, *options.data));
  }
  SPLITVEIL_RETURN_IF_ERROR(AttributeAudit::Check(options.agreement, options.config, options.known_attributes.get()));
  SPLITVEIL_RETURN_IF_ERROR(TopModel::Check(TopOptions(options.agreement, options.config, *options.data)));
  SPLITVEIL_ASSIGN_OR_RETURN(
      SeedExchange seed,
      SeedExchange::Create(SeedRole::kLabelParty,
                           SeedContribution(SeedRole::kLabelParty, options.config.party().reproducible_seed())));
  return std::unique_ptr<LabelSession>(new LabelSession(std::move(options), std::move(seed)));
}

LabelSession::LabelSession(LabelSessionOptions options, SeedExchange seed)
    : run_({std::move(options.agreement), std::move(options.config), std::move(options.data),
            std::move(options.known_attributes), options.status, std::move(options.account_id)},
           std::move(options.checkpoints), std::move(options.ledger_path), std::move(options.clock)),
      opening_({std::move(options.protection), std::move(options.alignments), options.only_continues,
                options.alignments_left},
               std::move(seed), &run_),
      closing_(std::move(options.keep_report), &run_) {}

absl::StatusOr<v1::OpenResponse> LabelSession::Open(const v1::OpenRequest& request) {
  absl::MutexLock lock(&mutex_);
  // The same Open again: the answer was lost with the connection.
  if (protocol_.MayRepeat(Message::kOpen) && opened_.Is(request)) {
    presence_.ConnectionLost();  // With the answer.
    presence_.Heard();
    return opened_.response;
  }
  // A restarted peer may ask again while this session is put away: only the next session can answer.
  if (end_.peer_started_again() || (protocol_.MayBeTakenUp() && opening_.IsTakenUpBy(request))) {
    return end_.End(Cause::kPeerStartedAgain, PeerStartedAgain("the non-label party"));
  }
  SPLITVEIL_RETURN_IF_ERROR(protocol_.Check(Message::kOpen));
  SPLITVEIL_ASSIGN_OR_RETURN(const v1::OpenResponse response, opening_.Open(request));
  // Only now is there a ledger to record interruptions in.
  presence_.RecordIn(records_.ledger());
  presence_.Heard();
  opened_ = {request.SerializeAsString(), response};
  return response;
}

absl::Status LabelSession::Align(AlignmentChannel& channel, const std::function<void()>& taken) {
  // The lock is released while ids are exchanged, which takes minutes; `number` tells whether this alignment still
  // counts.
  uint64_t number = 0;
  AlignmentOptions options;
  {
    absl::MutexLock lock(&mutex_);
    SPLITVEIL_RETURN_IF_ERROR(protocol_.Check(Message::kAlign));
    if (protocol_.state() != State::kOpened) {
      presence_.ConnectionLost();  // Without a sign here.
    }
    SPLITVEIL_RETURN_IF_ERROR(opening_.BeginAlignment());
    presence_.Heard();
    number = ++alignments_;
    options = AgreedAlignment(run_.context.agreement.alignment(), run_.context.config.party(), opening_.identities(),
                              protocol_.run_id());
  }
  if (taken) {
    taken();
  }
  AlignmentProgress progress(run_.context.status);
  options.progress = [&](uint64_t masked, uint64_t total, int64_t bytes) {
    progress.Report(masked, total, bytes);
    absl::MutexLock lock(&mutex_);
    // A superseded alignment must not keep the run alive: its peer may have been lost.
    if (number == alignments_) {
      presence_.Heard();
    }
  };
  // An alignment takes memory for all ids. A superseded one ends soon, as its channel is cut off.
  absl::MutexLock one_at_a_time(&alignment_);
  absl::StatusOr<AlignedIds> aligned = AlignIds(run_.context.data->ids(), options, channel);
  progress.Finish();
  absl::MutexLock lock(&mutex_);
  if (number != alignments_) {
    return absl::CancelledError("a later alignment has replaced this one");
  }
  if (protocol_.state() != State::kAligning) {
    return protocol_.HowItEnded();
  }
  absl::Status finished = opening_.FinishAlignment(std::move(aligned));
  if (finished.ok()) {
    presence_.Heard();
  } else if (!end_.ended()) {
    presence_.ConnectionLost();
  }
  return finished;
}

absl::StatusOr<v1::MeasureLinkResponse> LabelSession::MeasureLink(const v1::MeasureLinkRequest& request) {
  absl::MutexLock lock(&mutex_);
  SPLITVEIL_RETURN_IF_ERROR(protocol_.Check(Message::kMeasureLink, request.run_id()));
  SPLITVEIL_ASSIGN_OR_RETURN(v1::MeasureLinkResponse response, opening_.MeasureLink(request));
  presence_.Heard();
  return response;
}

absl::StatusOr<v1::StartResponse> LabelSession::Start(const v1::StartRequest& request) {
  absl::MutexLock lock(&mutex_);
  if (protocol_.MayRepeat(Message::kStart) && started_.Is(request)) {
    presence_.ConnectionLost();  // With the answer.
    presence_.Heard();
    return started_.response;
  }
  SPLITVEIL_RETURN_IF_ERROR(protocol_.Check(Message::kStart, request.run_id()));
  SPLITVEIL_ASSIGN_OR_RETURN(TrainingInputs inputs, opening_.Start(request));
  SPLITVEIL_RETURN_IF_ERROR(run_.context.agreement.mode() == v1::RunAgreement::PREDICT
                                ? BeginPrediction(std::move(inputs))
                                : BeginTraining(std::move(inputs)));
  presence_.Heard();
  v1::StartResponse response;
  response.set_seed_reveal(opening_.seed_reveal());
  started_ = {request.SerializeAsString(), response};
  return response;
}

absl::Status LabelSession::BeginTraining(TrainingInputs inputs) {
  absl::StatusOr<std::unique_ptr<RunTraining>> training = RunTraining::Create(&run_, std::move(inputs));
  SPLITVEIL_RETURN_IF_ERROR(end_.EndUnlessOk(training.status()));
  training_ = training->get();
  work_ = *std::move(training);
  // Before kTraining is entered, on which ScoreBatch relies.
  judge_ = training_->auditor();
  SPLITVEIL_RETURN_IF_ERROR(training_->Begin());
  protocol_.Training();
  return absl::OkStatus();
}

absl::Status LabelSession::BeginPrediction(TrainingInputs inputs) {
  absl::StatusOr<std::unique_ptr<RunPrediction>> prediction = RunPrediction::Create(
      &run_, {std::move(inputs.run_id), inputs.rows, opening_.alignment(), std::move(inputs.resumed), inputs.ledger});
  SPLITVEIL_RETURN_IF_ERROR(end_.EndUnlessOk(prediction.status()));
  work_ = *std::move(prediction);
  protocol_.Predicting();
  return absl::OkStatus();
}

absl::StatusOr<SharedGradients> LabelSession::Train(v1::CutActivations request, bool after_loss) {
  absl::MutexLock lock(&mutex_);
  SPLITVEIL_RETURN_IF_ERROR(protocol_.Check(Message::kTrain, request.run_id()));
  SPLITVEIL_ASSIGN_OR_RETURN(SharedGradients answer, training_->Train(std::move(request)));
  if (after_loss) {
    presence_.ConnectionLost();
  }
  presence_.Heard();
  return answer;
}

// Not refused in another state: the service calls it after an answer was written, when the run may have ended.
absl::Status LabelSession::Learn() {
  absl::MutexLock lock(&mutex_);
  return protocol_.state() == State::kTraining ? training_->LearnFromAnswered() : absl::OkStatus();
}

absl::Status LabelSession::Evaluate(const v1::CutActivations& request, Evaluation& evaluation) {
  absl::MutexLock lock(&mutex_);
  SPLITVEIL_RETURN_IF_ERROR(protocol_.Check(Message::kEvaluate, request.run_id()));
  SPLITVEIL_RETURN_IF_ERROR(work_->Evaluate(request, evaluation));
  presence_.Heard();
  return absl::OkStatus();
}

absl::StatusOr<v1::EvaluateResponse> LabelSession::FinishEvaluation(const Evaluation& evaluation) {
  absl::MutexLock lock(&mutex_);
  SPLITVEIL_RETURN_IF_ERROR(protocol_.Check(Message::kEvaluate));
  SPLITVEIL_ASSIGN_OR_RETURN(v1::EvaluateResponse response, work_->FinishEvaluation(evaluation));
  presence_.Heard();
  return response;
}

absl::StatusOr<v1::ScoreBatchResponse> LabelSession::ScoreBatch(const v1::ScoreBatchRequest& request) {
  // Without the lock, so that the peer does not wait for the step under way.
  SPLITVEIL_RETURN_IF_ERROR(protocol_.Check(Message::kScoreBatch, request.run_id()));
  absl::StatusOr<v1::ScoreBatchResponse> response = judge_.load()->Judge(request);  // It has a lock of its own.
  // Scores are a sign of life, too. While a different call has the lock, that call gives one.
  if (response.ok() && mutex_.TryLock()) {
    presence_.Heard();
    mutex_.Unlock();
  }
  // If the run ended meanwhile, so has its ledger: that is no fault of the request.
  if (protocol_.state() != State::kTraining) {
    return protocol_.HowItEnded();
  }
  // A ledger that cannot be written ends the run. A malformed request does not.
  if (IsOfLedger(response.status())) {
    absl::MutexLock lock(&mutex_);
    return end_.EndUnlessOk(response.status());
  }
  return response;
}

absl::StatusOr<v1::AuxiliaryLabelsResponse> LabelSession::AuxiliaryLabels(const v1::AuxiliaryLabelsRequest& request) {
  absl::MutexLock lock(&mutex_);
  SPLITVEIL_RETURN_IF_ERROR(protocol_.Check(Message::kAuxiliaryLabels, request.run_id()));
  SPLITVEIL_ASSIGN_OR_RETURN(v1::AuxiliaryLabelsResponse response, training_->AuxiliaryLabels());
  presence_.Heard();
  return response;
}

absl::StatusOr<v1::ScoreExamplesResponse> LabelSession::ScoreExamples(const v1::ScoreExamplesRequest& request) {
  absl::MutexLock lock(&mutex_);
  SPLITVEIL_RETURN_IF_ERROR(protocol_.Check(Message::kScoreExamples, request.run_id()));
  SPLITVEIL_RETURN_IF_ERROR(training_->ScoreExamples(request));
  presence_.Heard();
  return v1::ScoreExamplesResponse();
}

absl::Status LabelSession::EmbedAuxiliary(const v1::CutActivations& request, Embedding& embedding) {
  absl::MutexLock lock(&mutex_);
  SPLITVEIL_RETURN_IF_ERROR(protocol_.Check(Message::kEmbedAuxiliary, request.run_id()));
  SPLITVEIL_RETURN_IF_ERROR(training_->EmbedAuxiliary(request, embedding));
  presence_.Heard();
  return absl::OkStatus();
}

absl::StatusOr<v1::EmbedAuxiliaryResponse> LabelSession::FinishEmbedding(const Embedding& embedding) {
  absl::MutexLock lock(&mutex_);
  SPLITVEIL_RETURN_IF_ERROR(protocol_.Check(Message::kEmbedAuxiliary));
  SPLITVEIL_ASSIGN_OR_RETURN(v1::EmbedAuxiliaryResponse response, training_->FinishEmbedding(embedding));
  presence_.Heard();
  return response;
}

absl::StatusOr<SharedGuesses> LabelSession::GuessAttributes(const v1::GuessAttributesRequest& request) {
  absl::MutexLock lock(&mutex_);
  SPLITVEIL_RETURN_IF_ERROR(protocol_.Check(Message::kGuessAttributes, request.run_id()));
  SPLITVEIL_ASSIGN_OR_RETURN(SharedGuesses guesses, training_->GuessAttributes(request, stop_));
  presence_.Heard();
  return guesses;
}

absl::Status LabelSession::Close(const v1::CloseRequest& request) {
  absl::MutexLock lock(&mutex_);
  if (!request.completed()) {
    SPLITVEIL_RETURN_IF_ERROR(protocol_.Check(Message::kGiveUp, request.run_id()));
    end_.End(Cause::kPeer, absl::UnavailableError("the peer ended the run before it was complete")).IgnoreError();
    return absl::OkStatus();
  }
  // A repeated Close changes nothing and is answered with what the first one came to.
  if (!protocol_.MayRepeat(Message::kClose) || request.run_id() != protocol_.run_id()) {
    SPLITVEIL_RETURN_IF_ERROR(protocol_.Check(Message::kClose, request.run_id()));
    // The last step is learnt and the last checkpoint written before the run counts as complete.
    SPLITVEIL_RETURN_IF_ERROR(work_->Complete());
    SPLITVEIL_RETURN_IF_ERROR(end_.End(Cause::kCompleted, absl::OkStatus()));
  } else if (request.answered()) {
    // The peer knows that the run is complete: nothing can resume it, so its journal can be settled.
    protocol_.Farewell();
    records_.MarkComplete();
    ended_.Wake();
  }
  // Ledger, export and report are finished before the answer: a peer that hears OK may exit and never ask again.
  return end_.EndUnlessOk(closing_.Finish(work_.get()));
}

void LabelSession::StreamOpened() {
  absl::MutexLock lock(&mutex_);
  presence_.StreamOpened();
}

void LabelSession::StreamClosed() {
  absl::MutexLock lock(&mutex_);
  presence_.StreamClosed();
}

void LabelSession::TrainStreamEnded(bool cut_off) {
  absl::MutexLock lock(&mutex_);
  // Between epochs a peer ends the stream itself to evaluate: that is no loss.
  if (!end_.ended() && (cut_off || (training_ != nullptr && training_->within_epoch()))) {
    presence_.ConnectionLost();
  }
}

void LabelSession::ConnectionLost() {
  absl::MutexLock lock(&mutex_);
  if (!end_.ended()) {
    presence_.ConnectionLost();
  }
}

void LabelSession::NoteRefusal(absl::string_view call, const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  // From the answer to this call the peer knows that the run has ended.
  if ((IsHalt(status) || call == "Close") && end_.ended()) {
    end_told_ = true;
    ended_.Wake();
  }
  if (!end_.ended() && records_.ledger() != nullptr) {
    end_.EndUnlessOk(refusals_.Note(call, status, *records_.ledger())).IgnoreError();  // The peer is answered.
  }
}

bool LabelSession::EndIfDue(bool (*stop)()) {
  absl::MutexLock lock(&mutex_);
  if (end_.ended()) {
    return true;
  }
  if (stop()) {
    // The step whose gradients were sent is finished before the ledger is.
    // A step that fails has ended the run with its own cause, which must stay.
    if (work_ == nullptr || work_->Learn().ok()) {
      end_.End(Cause::kStopped, StoppedOnRequest()).IgnoreError();
    }
  } else if (absl::Status heard = presence_.CheckHeard(protocol_.state()); !heard.ok()) {
    end_.End(Cause::kPeer, std::move(heard)).IgnoreError();
  }
  return end_.ended();
}

absl::Status LabelSession::Halt() {
  absl::MutexLock lock(&mutex_);
  if (end_.ended() || records_.ledger() == nullptr) {
    return absl::FailedPreconditionError(end_.ended() ? "halt: the run has ended" : "halt: no run is under way");
  }
  // Gradients that were sent count as a step: their audit and their rows must be in the ledger.
  if (work_ != nullptr) {
    SPLITVEIL_RETURN_IF_ERROR(work_->Learn());
  }
  SPLITVEIL_RETURN_IF_ERROR(
      end_.EndUnlessOk(records_.ledger()->RecordEvent("operator_halt", "from this party's page (POST /halt)")));
  end_.End(Cause::kOperatorHalt, AsHalt(absl::ResourceExhaustedError("operator: halted the run"))).IgnoreError();
  return absl::OkStatus();
}

absl::Status LabelSession::RaiseNoise() {
  absl::MutexLock lock(&mutex_);
  if (end_.ended() || protocol_.state() != State::kTraining) {
    return absl::FailedPreconditionError("raise noise: no run is training");
  }
  return training_->RaiseNoise();
}

absl::Status LabelSession::LowerDisclosure() {
  absl::MutexLock lock(&mutex_);
  if (end_.ended() || protocol_.state() != State::kTraining) {
    return absl::FailedPreconditionError("lower disclosure: no run is training");
  }
  return training_->LowerDisclosure();
}

absl::Status LabelSession::WaitUntilEnded(bool (*stop)()) {
  // Also read by GuessAttributes, which holds the lock for minutes: EndIfDue cannot stop it.
  stop_ = stop;
  while (!EndIfDue(stop)) {
    ended_.Until(SteadyAfter(absl::Milliseconds(100)));
  }
  absl::MutexLock lock(&mutex_);
  return closing_.Finish(work_.get());
}

absl::Status LabelSession::own_verdict() const {
  absl::MutexLock lock(&mutex_);
  return end_.own_verdict();
}

void LabelSession::AwaitFarewell(absl::Duration limit, bool (*stop)()) {
  const SteadyTime deadline = SteadyAfter(limit);
  while (SteadyNow() < deadline && !stop()) {
    {
      absl::MutexLock lock(&mutex_);
      const bool may_ask_again = protocol_.state() == State::kCompleted && closing_.Finish(work_.get()).ok();
      const bool is_to_be_told = end_.halted_by_operator() && !end_told_;
      if (end_.peer_started_again() || !(may_ask_again || is_to_be_told)) {
        return;
      }
    }
    ended_.Until(SteadyAfter(absl::Milliseconds(100)));
  }
}

void LabelSession::AwaitEndTold(absl::Duration limit) {
  const SteadyTime deadline = SteadyAfter(limit);
  while (SteadyNow() < deadline) {
    {
      absl::MutexLock lock(&mutex_);
      // Nobody to tell if no peer has opened the run.
      if (!(end_.stopped() || end_.failed()) || !opened() || end_told_) {
        return;
      }
    }
    ended_.Until(SteadyAfter(absl::Milliseconds(100)));
  }
}

std::optional<RunFigures> LabelSession::figures() const {
  absl::MutexLock lock(&mutex_);
  return work_ == nullptr ? std::nullopt : std::optional<RunFigures>(work_->figures());
}

bool LabelSession::may_have_released() const {
  absl::MutexLock lock(&mutex_);
  // Before Start nothing can be released; afterwards the journal decides.
  return training_ != nullptr && records_.may_have_released();
}

const ModelState* LabelSession::model() const {
  absl::MutexLock lock(&mutex_);
  return work_ == nullptr ? nullptr : &work_->model();
}

}  // namespace splitveil
