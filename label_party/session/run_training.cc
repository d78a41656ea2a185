#include "label_party/session/run_training.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/config/agreement.h"
#include "common/figures/all_runs.h"
#include "common/figures/run_figures.h"
#include "common/leakage/bounds.h"
#include "common/process/exit_code.h"
#include "common/process/steady_time.h"
#include "common/status/status_macros.h"
#include "common/telemetry/log.h"
#include "label_party/protection/protection_factory.h"
#include "label_party/session/run.h"
#include "label_party/training/label_checks.h"

namespace splitveil {

using Cause = RunEnd::Cause;

absl::StatusOr<std::unique_ptr<RunTraining>> RunTraining::Create(Run* run, TrainingInputs inputs) {
  // The peer chose which examples are shared. If it were told that their labels are all alike, it could share any
  // number of examples with a known label and one more, and read the label of that one. So the run ends like any other,
  // and only this party reports a failure.
  run->end.SetOwnVerdict(CheckLabelsDiffer(run->context.agreement, *run->context.data, inputs.rows));
  if (!run->end.own_verdict().ok()) {
    LogWarning("this run will have no result (the peer is not told): ", run->end.own_verdict().message());
  }
  auto auditor =
      std::make_unique<LeakAuditor>(run->context.agreement, run->context.config.label_side_audit(),
                                    ExampleSample::Secret(static_cast<int64_t>(inputs.rows.size())), inputs.ledger);
  inputs.auditor = auditor.get();
  // The model is in the checkpoint, but the best one so far may be of an earlier epoch.
  const std::shared_ptr<const Checkpoint> continued = inputs.is_continued ? inputs.resumed : nullptr;
  SPLITVEIL_ASSIGN_OR_RETURN(Training training, MakeTraining(std::move(inputs)));
  std::unique_ptr<RunTraining> made(
      new RunTraining(run, std::move(auditor), std::move(training), /*is_continued=*/continued != nullptr));
  SPLITVEIL_RETURN_IF_ERROR(continued == nullptr ? absl::OkStatus()
                                                 : made->kept_model_.Resume(*continued, *made->training_.model));
  return made;
}

RunTraining::RunTraining(Run* run, std::unique_ptr<LeakAuditor> auditor, Training training, bool is_continued)
    : run_(run),
      auditor_(std::move(auditor)),
      training_(std::move(training)),
      replay_(MostInFlight(run->context.agreement)),
      checkpoint_due_(!is_continued && !run->context.agreement.progressive_validation()) {
  const RunContext& context = run_->context;
  // A continued run replays the epochs before its checkpoint, so that the stopper counts its patience from the right
  // one.
  if (context.config.has_early_stopping()) {
    early_stopper_ = std::make_unique<EarlyStopper>(
        context.config.early_stopping(), training_.source->validation_examples() > 0 ? "validation" : "test");
    for (const TestMetrics& epoch :
         training_.result().choosing()) {  // None of them stopped it, or it would not continue.
      (void)early_stopper_->ShouldStop(epoch);
    }
  }
  progress_.emplace(context.status, context.agreement.epochs(), training_.source->batches_per_epoch());
  ShowDisclosure();
}

absl::Status RunTraining::Begin() {
  // After a continued run has restored where it goes on: its rows and their order are there when the batch comes.
  training_.source->GatherAhead(training_.order->epoch(), training_.order->batch());
  return run_->end.EndUnlessOk(WriteDueCheckpoint());
}

absl::StatusOr<SharedGradients> RunTraining::Train(v1::CutActivations request) {
  // 1. A slice that was answered gets the same bytes: a second draw could be averaged with the first (rule 2).
  SPLITVEIL_ASSIGN_OR_RETURN(const std::optional<SharedGradients> left_before, replay_.Find(request));
  if (left_before.has_value()) {
    return *left_before;
  }
  // 2. Only the batch that is due: the peer does not choose which examples meet (rule 1).
  SPLITVEIL_RETURN_IF_ERROR(training_.order->CheckBatch(request.epoch(), request.batch()));
  // 3. The step before is finished first, if its stream broke after the answer; a checkpoint belongs between steps.
  SPLITVEIL_RETURN_IF_ERROR(Learn());
  SPLITVEIL_RETURN_IF_ERROR(run_->end.EndUnlessOk(WriteDueCheckpoint()));
  TrainingStep& step = *training_.step;
  if (within_epoch()) {
    training_.recorder->Lap(&StepTimeRow::wait);
  } else {
    training_.recorder->stopwatch().Restart();  // The evaluation between epochs is no part of a step.
  }
  SPLITVEIL_RETURN_IF_ERROR(step.Receive(request));
  if (training_.attribute_audit != nullptr) {
    SPLITVEIL_RETURN_IF_ERROR(run_->end.EndUnlessOk(training_.attribute_audit->TakeTraining(
        request, training_.source->PositionsOf(request.epoch(), request.batch()))));
  }
  // 4. Protect, gate and encode. AlreadyExists: the journal holds different activations or a different answer.
  absl::StatusOr<SharedGradients> answer = step.Answer();
  if (absl::IsAlreadyExists(answer.status())) {
    return run_->end.End(Cause::kRefused, answer.status());
  }
  SPLITVEIL_RETURN_IF_ERROR(run_->end.EndUnlessOk(answer.status()));
  const bool last = !step.batch_begun();
  // 5. Kept before it is sent, since the connection may break while it is.
  replay_.Keep(std::move(request), *answer, last);
  training_.order->SliceTaken(last);
  checkpoint_due_ = last && training_.order->IsCheckpointDue(run_->context.agreement.checkpoint_steps());
  return answer;
}

absl::Status RunTraining::LearnFromAnswered() {
  training_.recorder->Lap(&StepTimeRow::wire);
  return Learn();
}

absl::Status RunTraining::Learn() {
  const absl::StatusOr<bool> learned = training_.step->Learn();
  SPLITVEIL_RETURN_IF_ERROR(run_->end.EndUnlessOk(learned.status()));
  if (!*learned) {
    return absl::OkStatus();
  }
  const RunResult& result = training_.result();
  progress_->Report(result.steps, result.trained_examples, result.train_log_loss, auditor_->latest());
  ShowBoundExceeded();
  ShowAccount();
  run_->protocol.Stepped();
  run_->presence.Heard();  // While this party worked the peer had to wait.
  return absl::OkStatus();
}

absl::Status RunTraining::Evaluate(const v1::CutActivations& request, TestEvaluation& evaluation) {
  if (training_.order->IsLatestEvaluation(request.epoch())) {  // The answer was lost.
    evaluation.epoch = request.epoch();
    evaluation.repeated = true;
    return absl::OkStatus();
  }
  SPLITVEIL_RETURN_IF_ERROR(training_.order->CheckTestBatch(request.epoch(), request.batch(), evaluation.next_batch));
  // Decoded before Learn: a message that is refused must change nothing.
  SPLITVEIL_ASSIGN_OR_RETURN(const Matrix activations, training_.evaluator->Read(request, evaluation));
  SPLITVEIL_RETURN_IF_ERROR(Learn());
  if (training_.attribute_audit != nullptr) {
    SPLITVEIL_RETURN_IF_ERROR(run_->end.EndUnlessOk(
        training_.attribute_audit->TakeTest(request.epoch(), evaluation.next_batch, activations)));
  }
  evaluation.epoch = request.epoch();
  return run_->end.EndUnlessOk(training_.evaluator->Predict(activations, evaluation));
}

absl::StatusOr<v1::EvaluateResponse> RunTraining::FinishEvaluation(const TestEvaluation& evaluation) {
  // All of it was sent again before the first stream's end was taken, or it came after that: the same answer.
  if ((evaluation.repeated || evaluation.next_batch > 0) && training_.order->IsLatestEvaluation(evaluation.epoch)) {
    return EvaluationAnswer();
  }
  SPLITVEIL_RETURN_IF_ERROR(
      training_.order->CheckEvaluation(evaluation.epoch, training_.evaluator->examples(evaluation)));
  const bool before_training = run_->context.agreement.progressive_validation();
  // Whether training stops, and what is kept, depend on labels: only one evaluation of an epoch may get that answer,
  // even after a crash.
  if (!before_training && (early_stopper_ != nullptr || training_.result().kept.by() != KeepBy::kLast)) {
    SPLITVEIL_RETURN_IF_ERROR(JournalEvaluation(evaluation));
  }
  SPLITVEIL_RETURN_IF_ERROR(
      run_->end.EndUnlessOk(training_.evaluator->Finish(before_training ? -1 : int64_t{evaluation.epoch}, evaluation)));
  training_.order->Evaluated(evaluation.epoch);
  if (!before_training) {
    SPLITVEIL_RETURN_IF_ERROR(run_->end.EndUnlessOk(AfterEvaluation()));
  }
  return EvaluationAnswer();
}

absl::Status RunTraining::JournalEvaluation(const TestEvaluation& evaluation) const {
  ReleaseJournal* const journal = run_->records.journal();
  const absl::Status taken =
      journal == nullptr ? absl::OkStatus() : journal->Evaluate(evaluation.epoch, evaluation.activations);
  return absl::IsAlreadyExists(taken) ? run_->end.End(Cause::kRefused, taken) : run_->end.EndUnlessOk(taken);
}

v1::EvaluateResponse RunTraining::EvaluationAnswer() const {
  v1::EvaluateResponse response;
  response.set_examples(static_cast<uint64_t>(training_.source->test_examples()));
  response.set_stop_training(training_.order->stopped_early());
  response.set_kept(training_.result().kept.answer());
  return response;
}

absl::Status RunTraining::AfterEvaluation() {
  absl::Status status;
  // Before the kept model is restored: stopping decides which epoch is the last one.
  const bool stops = early_stopper_ != nullptr && early_stopper_->ShouldStop(training_.result().choosing().back());
  if (stops && !training_.order->trained()) {
    status = StopEarly();
  }
  // The error is ignored: the answer is this party's own and names only epochs that it has kept.
  (void)kept_model_.Take(training_.result().kept.answer(), training_.order->epoch(), *training_.model);
  status.Update(training_.order->trained() ? kept_model_.Restore(*training_.model) : absl::OkStatus());
  checkpoint_due_ = true;
  // Before the answer: this party is never behind the peer, whose checkpoint follows it and, if attributes are
  // attacked now, the guesses at them.
  if (!CheckAttributeCall(training_.order->epoch() - 1, "GuessAttributes").ok()) {
    status.Update(WriteDueCheckpoint());
  }
  return status;
}

absl::Status RunTraining::StopEarly() {
  training_.order->StopTraining();
  const uint32_t epochs = training_.order->epoch();
  training_.recorder->result().epochs = epochs;
  const std::string detail = absl::StrCat("after epoch ", epochs, ": ", early_stopper_->Reason());
  LogInfo("stopped early ", detail);
  return run_->records.ledger()->RecordEvent("early_stopping", detail);
}

absl::Status RunTraining::WriteDueCheckpoint() {
  if (!std::exchange(checkpoint_due_, false) || !run_->records.writes_checkpoints()) {
    return absl::OkStatus();
  }
  // One checkpoint is written at a time, on a thread of its own: the one before must be done.
  SPLITVEIL_RETURN_IF_ERROR(run_->records.FinishCheckpoint());
  const SteadyTime since = SteadyNow();
  const TrainingOrder& order = *training_.order;
  return run_->records.checkpoint_writer()->Write(
      {training_.result().run_id, order.epoch(), order.batch(), training_.result().steps, auditor_->peer_epochs(),
       ToProto(training_.state()), kept_model_.epochs(), kept_model_.Beside(order.epoch(), order.batch())},
      training_.model->TrainingState(), training_.Progress(*auditor_), since);
}

absl::Status RunTraining::CheckCompletion(const char* call) const {
  const v1::AuditAgreement& audit = run_->context.agreement.audit();
  // Labels in the clear: only what both parties have agreed to in so many words.
  if (audit.auxiliary_labels() == 0 || audit.disclosure() != v1::ORACLE) {
    return absl::PermissionDeniedError(absl::StrCat(call, ": the agreement grants no auxiliary labels"));
  }
  return training_.order->CheckTrained(call);
}

absl::StatusOr<v1::AuxiliaryLabelsResponse> RunTraining::AuxiliaryLabels() {
  SPLITVEIL_RETURN_IF_ERROR(CheckCompletion("AuxiliaryLabels"));
  SPLITVEIL_RETURN_IF_ERROR(Learn());
  // Labels that were sent before the disclosure was lowered may be sent again; no new ones are.
  if (completion_ == nullptr && training_.step->is_disclosure_lowered()) {
    return v1::AuxiliaryLabelsResponse();
  }
  if (completion_ == nullptr) {
    auto completion =
        std::make_unique<CompletionAudit>(CompletionOptions(run_->context.agreement, training_), auditor_.get());
    // Recorded before it is sent, so that the ledger never states less than the peer has.
    SPLITVEIL_RETURN_IF_ERROR(RecordDisclosed(completion->auxiliary().positions_size()));
    completion_ = std::move(completion);
  }
  return completion_->auxiliary();
}

absl::Status RunTraining::RecordDisclosed(int labels) {
  const absl::StatusOr<int64_t> before = run_->records.ledger()->CountEventsOfRun("disclosed");
  SPLITVEIL_RETURN_IF_ERROR(run_->end.EndUnlessOk(before.status()));
  training_.recorder->result().gave_labels = true;
  return *before > 0 ? absl::OkStatus()
                     : RecordAtOnce("disclosed", absl::StrCat(labels, " auxiliary labels to the attack module"));
}

absl::Status RunTraining::ScoreExamples(const v1::ScoreExamplesRequest& request) {
  SPLITVEIL_RETURN_IF_ERROR(CheckCompletion("ScoreExamples"));
  if (completion_ == nullptr) {
    return absl::FailedPreconditionError("ScoreExamples: ask for the auxiliary labels first");
  }
  const absl::Status scored = completion_->Score(request);
  // A wrong chunk from the peer does not change the run; a ledger that fails ends it.
  return IsOfLedger(scored) ? run_->end.EndUnlessOk(scored) : scored;
}

absl::Status RunTraining::CheckAttributeCall(uint32_t epoch, const char* call) const {
  if (training_.attribute_audit == nullptr) {
    return absl::PermissionDeniedError(absl::StrCat(call, ": the agreement has no attacks on attributes"));
  }
  SPLITVEIL_RETURN_IF_ERROR(training_.order->CheckAudit(call, epoch));
  return training_.attribute_audit->CheckDue(call, epoch, training_.order->trained());
}

absl::Status RunTraining::EmbedAuxiliary(const v1::CutActivations& request, AuxiliaryEmbedding& embedding) {
  if (!run_->context.agreement.attribute_audit().embed_auxiliary()) {
    return absl::PermissionDeniedError("EmbedAuxiliary: the agreement does not set embed_auxiliary");
  }
  SPLITVEIL_RETURN_IF_ERROR(CheckAttributeCall(request.epoch(), "EmbedAuxiliary"));
  return training_.attribute_audit->Embed(request, embedding);
}

absl::StatusOr<v1::EmbedAuxiliaryResponse> RunTraining::FinishEmbedding(const AuxiliaryEmbedding& embedding) {
  SPLITVEIL_RETURN_IF_ERROR(CheckAttributeCall(embedding.epoch, "EmbedAuxiliary"));
  absl::StatusOr<v1::EmbedAuxiliaryResponse> response = training_.attribute_audit->FinishEmbedding(embedding);
  return IsOfLedger(response.status()) ? run_->end.EndUnlessOk(response.status()) : std::move(response);
}

absl::StatusOr<SharedGuesses> RunTraining::GuessAttributes(const v1::GuessAttributesRequest& request, bool (*stop)()) {
  SPLITVEIL_RETURN_IF_ERROR(CheckAttributeCall(request.epoch(), "GuessAttributes"));
  SPLITVEIL_RETURN_IF_ERROR(training_.attribute_audit->CheckGuess(request.epoch()));
  SPLITVEIL_RETURN_IF_ERROR(Learn());
  absl::StatusOr<SharedGuesses> guesses = training_.attribute_audit->Guess(request.epoch(), stop);
  if (IsStoppedOnRequest(guesses.status())) {
    return run_->end.End(Cause::kStopped, guesses.status());
  }
  SPLITVEIL_RETURN_IF_ERROR(run_->end.EndUnlessOk(guesses.status()));
  // The decoders that have learned are part of the checkpoint, which therefore waited for them.
  SPLITVEIL_RETURN_IF_ERROR(run_->end.EndUnlessOk(WriteDueCheckpoint()));
  return guesses;
}

absl::Status RunTraining::Complete() {
  SPLITVEIL_RETURN_IF_ERROR(training_.order->CheckComplete());
  SPLITVEIL_RETURN_IF_ERROR(Learn());
  return run_->end.EndUnlessOk(WriteDueCheckpoint());
}

absl::Status RunTraining::FinishRecords() {
  progress_->Finish();
  return auditor_->FinishRun();
}

void RunTraining::Ended(const char* ended) {
  training_.recorder->result().ended = ended;
  ShowBoundExceeded();
}

void RunTraining::ShowBoundExceeded() {
  const auto exceeded = static_cast<uint64_t>(auditor_->bound_exceeded());
  run_->context.status->Update([&](v1::GetStatusResponse& status) { status.set_bound_exceeded(exceeded); });
}

void RunTraining::ShowAccount() {
  const RunResult& result = training_.result();
  const double limit = training_.guard->max_run_sum_kl();
  // In divergence, which adds up, so that half of the budget means half of the releases.
  const double spent = SumKlOfGaussianAuc(result.AucBoundWith(result.earlier_sum_kl));
  run_->context.status->Update([&](v1::GetStatusResponse& status) {
    v1::LabelPartyFigures& figures = *status.mutable_label_party();
    figures.set_run_auc_bound(result.AucBoundWith(0));
    figures.set_bound_proved(IsBoundProved(result.protection));
    if (std::isfinite(limit)) {
      figures.set_max_run_auc_bound(GaussianAucBound(limit));
      figures.set_budget_left(std::max(0.0, 1 - spent / limit));
    }
  });
}

absl::Status RunTraining::RaiseNoise() {
  const RunResult& result = training_.result();
  if (!CanRaiseNoise(run_->context.config.protection())) {
    return absl::FailedPreconditionError("raise noise: only iso and marvell can raise their noise");
  }
  // Without a finite divergence of a release there is nothing to halve.
  if (result.auc_bounds.empty() || training_.recorder->frozen() || !(result.latest_sum_kl > 0) ||
      !std::isfinite(result.latest_sum_kl)) {
    return absl::FailedPreconditionError(
        "raise noise: no gradient with noise has been sent yet, or the bottom model is frozen");
  }
  // From the first batch without an answer: one that was answered must be repeated with its own noise.
  const ReleaseJournal::RaisedNoise raised = {NextToBeDecided(),
                                              std::min(training_.guard->max_sum_kl(), result.latest_sum_kl) / 2};
  // On the disk before anything else: a continued run must not disclose more.
  if (ReleaseJournal* const journal = run_->records.journal(); journal != nullptr) {
    SPLITVEIL_RETURN_IF_ERROR(run_->end.EndUnlessOk(journal->RaiseNoise(raised)));
  }
  training_.guard->RaiseNoise(raised);
  return RecordAtOnce("operator_raise_noise",
                      absl::StrFormat("from epoch %d batch %d on: bound on the AUC of a step at most %.4f (Theorem 1)",
                                      raised.from.epoch, raised.from.batch, AucBound(raised.max_sum_kl)));
}

ReleaseJournal::Batch RunTraining::NextToBeDecided() const {
  const ReleaseJournal::Batch next = {training_.order->epoch(), training_.order->batch()};
  const ReleaseJournal* const journal = run_->records.journal();
  return journal == nullptr ? next : journal->FirstUnanswered(next);
}

absl::Status RunTraining::RecordAtOnce(const char* event, const std::string& detail) {
  Ledger& ledger = *run_->records.ledger();
  absl::Status recorded = ledger.RecordEvent(event, detail);
  recorded.Update(ledger.Commit());
  return run_->end.EndUnlessOk(recorded);
}

v1::DisclosureLevel RunTraining::disclosure() const {
  return training_.step->is_disclosure_lowered() ? v1::LABEL_SIDE_ONLY : run_->context.agreement.audit().disclosure();
}

void RunTraining::ShowDisclosure() {
  const std::string& name = v1::DisclosureLevel_Name(disclosure());
  run_->context.status->Update(
      [&](v1::GetStatusResponse& status) { status.mutable_label_party()->set_disclosure(name); });
}

absl::Status RunTraining::LowerDisclosure() {
  const v1::DisclosureLevel before = disclosure();
  if (before == v1::LABEL_SIDE_ONLY) {
    return absl::FailedPreconditionError("lower disclosure: expected ROUNDED or ORACLE, found LABEL_SIDE_ONLY");
  }
  const auto [epoch, batch] = NextToBeDecided();
  // On the disk before anything else: a continued run must not disclose more.
  if (ReleaseJournal* const journal = run_->records.journal(); journal != nullptr) {
    SPLITVEIL_RETURN_IF_ERROR(run_->end.EndUnlessOk(journal->LowerDisclosure(epoch, batch)));
  }
  training_.step->LowerDisclosureFrom(epoch, batch);
  auditor_->LowerDisclosure();
  ShowDisclosure();
  return RecordAtOnce("operator_lower_disclosure",
                      absl::StrCat("attack module reads from epoch ", epoch, " batch ", batch,
                                   " on: LABEL_SIDE_ONLY; agreed: ", v1::DisclosureLevel_Name(before)));
}

absl::StatusOr<std::optional<SharedGradients>> ReplayCache::Find(const v1::CutActivations& request) const {
  // A batch that is no longer kept is refused by TrainingOrder: only batches in flight can be sent again.
  // Only the batches in flight are kept: everything older was acknowledged by the request that followed it.
  const auto entry = std::find_if(entries_.begin(), entries_.end(), [&](const ReplayEntry& kept) {
    return kept.epoch == request.epoch() && kept.batch == request.batch();
  });
  if (entry == entries_.end()) {
    return std::optional<SharedGradients>();
  }
  const auto slice = entry->slices.find(request.first_row());
  const bool taken = slice != entry->slices.end();
  // A further slice of the batch that is being collected.
  if (!taken && !entry->complete) {
    return std::optional<SharedGradients>();
  }
  // Different activations for an answered slice would need a second draw of noise.
  if (!taken || slice->second.activations != request.activations().data()) {
    return absl::FailedPreconditionError("activations: they differ from those received for this batch before");
  }
  return std::optional<SharedGradients>(slice->second.answer);
}

void ReplayCache::Keep(v1::CutActivations request, SharedGradients answer, bool last) {
  // Batches come one after the other, so only the latest entry can be incomplete.
  if (entries_.empty() || entries_.back().complete) {
    entries_.push_back({request.epoch(), request.batch(), {}});
  }
  ReplayEntry& entry = entries_.back();
  entry.slices[request.first_row()] = {std::move(*request.mutable_activations()->mutable_data()), std::move(answer)};
  entry.complete = last;
  while (last && entries_.size() > batches_) {
    entries_.pop_front();
  }
}

}  // namespace splitveil
