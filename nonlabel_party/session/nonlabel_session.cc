#include "nonlabel_party/session/nonlabel_session.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"

#include "common/checkpoint/progress_archive.h"
#include "common/config/agreement.h"
#include "common/figures/all_runs.h"
#include "common/privacy/gaussian_privacy.h"
#include "common/process/exit_code.h"
#include "common/process/runtime.h"
#include "common/process/steady_time.h"
#include "common/schedule/schedule.h"
#include "common/status/status_macros.h"
#include "common/telemetry/log.h"
#include "nonlabel_party/bottom/distributed_bottom_model.h"
#include "nonlabel_party/session/attack_runner.h"

namespace splitveil {

namespace {

using Answer = AnswerProtocol::Answer;

// How many batches of the epoch are trained when the next checkpoint is due, or the epoch ends.
uint32_t NextPlace(uint32_t epoch, uint32_t batch, uint32_t batches_per_epoch, int64_t checkpoint_steps) {
  do {
    ++batch;
  } while (batch < batches_per_epoch &&
           !IsCheckpointStep(int64_t{epoch} * batches_per_epoch + batch, checkpoint_steps));
  return batch;
}

}  // namespace

NonLabelSession::NonLabelSession(NonLabelSessionOptions options)
    : options_(std::move(options)),
      stop_(options_.stop),
      reconnector_({absl::Seconds(options_.agreement.deadlines().max_outage_seconds()), options_.reach, &stop_,
                    [this](const char* kind, const std::string& detail) {
                      return lifecycle_.RecordInterruption(kind, detail);
                    }}),
      peer_(options_.peer, &reconnector_),
      lifecycle_(&options_, &stop_, &reconnector_, &protocol_),
      account_(&options_.config, &options_.agreement) {
  options_.peer = &peer_;
}

absl::Status NonLabelSession::Run() {
  const absl::Status outcome = RunToEnd();
  if (recorder_ != nullptr) {
    recorder_->EndProgress();
  }
  return lifecycle_.End(outcome);
}

absl::Status NonLabelSession::RunToEnd() {
  SPLITVEIL_RETURN_IF_ERROR(stop_.Check());
  // Everything that may fail here comes before the first message, so that a mistake costs the peer nothing.
  SPLITVEIL_RETURN_IF_ERROR(lifecycle_.Prepare());
  SPLITVEIL_RETURN_IF_ERROR(CheckModel());
  SPLITVEIL_RETURN_IF_ERROR(CheckAffordable(options_.config, options_.agreement));
  SPLITVEIL_RETURN_IF_ERROR(CheckWhatWasSent(options_.config, options_.checkpoints));
  SPLITVEIL_RETURN_IF_ERROR(stop_.Check());
  SPLITVEIL_RETURN_IF_ERROR(lifecycle_.Open());
  SPLITVEIL_RETURN_IF_ERROR(stop_.Check());
  SPLITVEIL_RETURN_IF_ERROR(lifecycle_.Align());
  SPLITVEIL_RETURN_IF_ERROR(stop_.Check());
  return only_predicts() ? Predict() : Train();
}

absl::Status NonLabelSession::Predict() {
  GatherFeatures();
  SPLITVEIL_RETURN_IF_ERROR(lifecycle_.Start(/*split_sha256=*/"", /*batches_per_epoch=*/1).status());
  SPLITVEIL_RETURN_IF_ERROR(CreateModel());
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<VersionWriter> version, lifecycle_.BeginVersion());
  SPLITVEIL_RETURN_IF_ERROR(lifecycle_.Resume(*model_).status());
  // One release of each example, without a schedule: the order is the aligned one, which both parties know.
  std::vector<uint32_t> all(aligned().rows.size());
  std::iota(all.begin(), all.end(), 0);
  SPLITVEIL_RETURN_IF_ERROR(CountReleases(all, /*steps=*/0));
  options_.status->Update([](v1::GetStatusResponse& status) { status.set_phase("predicting"); });
  SPLITVEIL_RETURN_IF_ERROR(
      reconnector_.Persist([&] { return EvaluateExamples(*options_.peer, Source(), all, 0); }).status());
  SPLITVEIL_RETURN_IF_ERROR(
      RecordPrivacyLosses(*protected_model_, "predicted", "in one prediction", *lifecycle_.ledger()));
  SPLITVEIL_RETURN_IF_ERROR(protocol_.Take(Answer::kEvaluated));
  if (version != nullptr) {
    SPLITVEIL_ASSIGN_OR_RETURN(const int64_t number, version->Publish());
    LogInfo("stored this party's half of version ", number, " in ", options_.config.versions_path());
  }
  return lifecycle_.Close(*model_);
}

absl::Status NonLabelSession::Train() {
  SPLITVEIL_RETURN_IF_ERROR(Start());
  if (options_.agreement.progressive_validation()) {
    SPLITVEIL_RETURN_IF_ERROR(Evaluate(0));
  }
  SPLITVEIL_RETURN_IF_ERROR(TrainEpochs());
  SPLITVEIL_RETURN_IF_ERROR(CompleteModel());
  SPLITVEIL_RETURN_IF_ERROR(lifecycle_.Close(*model_));
  // Fewer than agreed after early stopping.
  const auto epochs = static_cast<uint32_t>(recorder_->totals().steps / schedule_->batches_per_epoch());
  return WriteCheckpoint(epochs, 0);  // As one of a run that is complete.
}

absl::Status NonLabelSession::CheckModel() const {
  SPLITVEIL_RETURN_IF_ERROR(CheckActivationAccount(options_.config, options_.agreement));
  SPLITVEIL_RETURN_IF_ERROR(AttributeAuditRunner::Check(options_.agreement, *options_.data));
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<std::string> layers,
                             BottomModel::Check(BottomOptions(options_.agreement, options_.config, *options_.data)));
  // The agreement names layers of this party's model, which the label party cannot check.
  for (const std::string& audited : options_.agreement.audit().layers()) {
    if (std::find(layers.begin(), layers.end(), audited) == layers.end()) {
      return absl::InvalidArgumentError(absl::StrCat("audit.layers: expected layers of the bottom model, ",
                                                     absl::StrJoin(layers, ", "), ", found \"", audited, "\""));
    }
  }
  return Attributes().status();
}

absl::StatusOr<std::vector<ProtectedAttribute>> NonLabelSession::Attributes() const {
  return CheckActivationProtection(options_.config.protection(), options_.data->preprocessing(), options_.agreement,
                                   options_.config.model());
}

absl::Status NonLabelSession::TryModel() const {
  SPLITVEIL_RETURN_IF_ERROR(CheckModel());
  return BottomModel::Create(BottomOptions(options_.agreement, options_.config, *options_.data)).status();
}

absl::Status NonLabelSession::Start() {
  // Before the call: with many ids this takes a while, and after it the label party waits no longer than for a step.
  const v1::RunAgreement& agreement = options_.agreement;
  split_ = SplitRule(agreement).Split(*options_.data, aligned().rows);
  GatherFeatures();
  // Split by ids, both parties compute the same parts; by tables, each has its own, and the digest compares them.
  const std::string split = IsSplitByTables(agreement) ? std::string(AsBytes(SplitDigest(split_))) : "";
  const int64_t batches = BatchesPerEpoch(static_cast<int64_t>(split_.train.size()), AgreedSchedule(agreement));
  SPLITVEIL_ASSIGN_OR_RETURN(const JointSeed seed, lifecycle_.Start(split, batches));
  return PrepareTraining(seed);
}

void NonLabelSession::GatherFeatures() {
  features_ = std::make_unique<FeatureTable>(options_.data, absl::MakeConstSpan(aligned().rows));
  options_.data->ReleaseMemory();  // Of the ids,
  ReturnFreeMemory();              // of the alignment.
}

absl::Status NonLabelSession::CreateModel() {
  const BottomModelOptions bottom = BottomOptions(options_.agreement, options_.config, *options_.data);
  SPLITVEIL_ASSIGN_OR_RETURN(model_, CreateBottomModel(bottom, options_.workers));
  SPLITVEIL_ASSIGN_OR_RETURN(std::vector<ProtectedAttribute> attributes, Attributes());
  SPLITVEIL_ASSIGN_OR_RETURN(
      protected_model_, ProtectedBottomModel::Create(model_.get(), options_.config.protection(), std::move(attributes),
                                                     bottom.cut_width, bottom.seed));
  return absl::OkStatus();
}

absl::Status NonLabelSession::PrepareTraining(const JointSeed& seed) {
  const v1::RunAgreement& agreement = options_.agreement;
  SPLITVEIL_ASSIGN_OR_RETURN(Schedule schedule, Schedule::Create(seed, split_.train, AgreedSchedule(agreement)));
  schedule_ = std::make_unique<Schedule>(std::move(schedule));
  SPLITVEIL_RETURN_IF_ERROR(CreateModel());
  SPLITVEIL_ASSIGN_OR_RETURN(
      AttackRunner attacks,
      AttackRunner::Create(agreement, lifecycle_.run_id(), static_cast<int64_t>(aligned().rows.size()), options_.peer,
                           model_.get(), lifecycle_.ledger()));
  attacks_ = std::make_unique<AttackRunner>(std::move(attacks));
  ConnectTraining();
  split_.train = std::vector<uint32_t>();  // The schedule has them in less memory.
  ReturnFreeMemory();
  // After all parts are made: a resumed run loads its progress into each of them.
  SPLITVEIL_ASSIGN_OR_RETURN(const std::shared_ptr<const Checkpoint> continued, lifecycle_.Resume(*model_));
  if (lifecycle_.first_epoch() < agreement.epochs()) {
    (void)schedule_->DrawAhead(lifecycle_.first_epoch());  // Beside what follows.
  }
  if (continued != nullptr) {
    SPLITVEIL_RETURN_IF_ERROR(kept_model_.Resume(*continued, *model_));
    SPLITVEIL_RETURN_IF_ERROR(LoadProgress(continued->progress(), stopped_early_, *attacks_, *recorder_, *step_,
                                           *protected_model_, *attribute_audit_, account_));
    return CountReleases(SentPositions(schedule_->positions(), split_), /*steps=*/std::nullopt);
  }
  SPLITVEIL_RETURN_IF_ERROR(attribute_audit_->RecordSample());
  SPLITVEIL_ASSIGN_OR_RETURN(const int64_t steps, BeginProtection());
  SPLITVEIL_RETURN_IF_ERROR(CountReleases(SentPositions(schedule_->positions(), split_), steps));
  // So that what has been aligned is not lost.
  return agreement.progressive_validation() ? absl::OkStatus() : WriteCheckpoint(0, 0);
}

absl::Status NonLabelSession::WriteCheckpoint(uint32_t epochs, uint32_t batches) {
  CheckpointWriter* const writer = lifecycle_.checkpoint_writer();
  if (writer == nullptr) {
    return absl::OkStatus();
  }
  // One at a time: a second gathered copy of the model would double the memory.
  SPLITVEIL_RETURN_IF_ERROR(writer->Wait());
  SPLITVEIL_RETURN_IF_ERROR(account_.Sync());
  const SteadyTime since = SteadyNow();
  return writer->Write(
      {lifecycle_.run_id(),
       epochs,
       batches,
       recorder_->totals().steps,
       epochs,
       {},
       kept_model_.epochs(),
       kept_model_.Beside(epochs, batches)},
      model_->TrainingState(),
      SaveProgress(stopped_early_, *attacks_, *recorder_, *step_, *protected_model_, *attribute_audit_, account_),
      since);
}

absl::StatusOr<int64_t> NonLabelSession::BeginProtection() {
  uint32_t batch = 0;
  // Batches of the first epoch in turn: they are this party's own rows, and nothing of these steps is sent.
  return protected_model_->Pretrain([&] {
    const absl::Span<const uint32_t> positions = schedule_->BatchRows(0, batch);
    batch = (batch + 1) % static_cast<uint32_t>(schedule_->batches_per_epoch());
    return features_->Gather(positions);
  });
}

absl::Status NonLabelSession::CountReleases(absl::Span<const uint32_t> positions, std::optional<int64_t> steps) {
  Ledger& ledger = *lifecycle_.ledger();
  if (account_.counts()) {
    std::vector<NoiseRow> examples;
    examples.reserve(positions.size());
    for (const uint32_t position : positions) {
      examples.push_back(NoiseRow::OfId(options_.data->ids()[aligned().rows[position]]));
    }
    options_.data->ReleaseMemory();  // Of the ids.
    SPLITVEIL_RETURN_IF_ERROR(
        account_.Begin({lifecycle_.run_id(), protected_model_->NoiseId(), options_.checkpoints.path,
                        lifecycle_.is_continued(), lifecycle_.first_epoch(), lifecycle_.first_batch()},
                       examples));
    SPLITVEIL_RETURN_IF_ERROR(ledger.Record(*account_.all_runs()));
  }
  const int64_t releases = ActivationReleases(options_.agreement);
  if (steps.has_value()) {
    SPLITVEIL_RETURN_IF_ERROR(
        RecordActivationProtection(options_.config.protection(), *protected_model_, *steps, releases, ledger));
  }
  SPLITVEIL_RETURN_IF_ERROR(RecordActivationBound(*protected_model_, releases, ledger));
  // All of it on the disk before the first of them is sent: of a run without it nothing was.
  SPLITVEIL_RETURN_IF_ERROR(
      ledger.RecordEvent(kReleasesFollow, ReleasesFollow(static_cast<int64_t>(positions.size()), account_.start())));
  return ledger.Commit();
}

void NonLabelSession::ConnectTraining() {
  const v1::RunAgreement& agreement = options_.agreement;
  recorder_ = std::make_unique<NonLabelStepRecorder>(lifecycle_.ledger(), options_.status, agreement.epochs(),
                                                     schedule_->batches_per_epoch());
  step_ = std::make_unique<NonLabelTrainingStep>(
      NonLabelTrainingStep::Parts{schedule_.get(), features_.get(), protected_model_.get(), &protocol_, attacks_.get(),
                                  recorder_.get(), &account_},
      NonLabelTrainingStep::Wire{lifecycle_.run_id(), agreement.wire_dtype(), agreement.cut_width(),
                                 lifecycle_.in_flight_batches()});
  attribute_audit_ = std::make_unique<AttributeAuditRunner>(
      AttributeAuditRunner::Options{options_.peer, agreement, Source(), lifecycle_.ledger()}, *options_.data,
      aligned().rows, split_);
}

absl::Status NonLabelSession::TrainEpochs() {
  uint32_t first = lifecycle_.first_batch();
  for (uint32_t epoch = lifecycle_.first_epoch(); epoch < options_.agreement.epochs() && !stopped_early_; ++epoch) {
    SPLITVEIL_RETURN_IF_ERROR(stop_.Check());
    SPLITVEIL_RETURN_IF_ERROR(TrainEpoch(epoch, std::exchange(first, 0)));
    if (stop_.seen()) {
      return StoppedOnRequest();
    }
    if (!options_.agreement.progressive_validation()) {
      SPLITVEIL_RETURN_IF_ERROR(Evaluate(epoch));
      SPLITVEIL_RETURN_IF_ERROR(AuditAttributes(epoch));
    }
    if (stopped_early_ || epoch + 1 == options_.agreement.epochs()) {
      SPLITVEIL_RETURN_IF_ERROR(kept_model_.Restore(*model_));
    }
    // After the evaluation, whose verdict (early stopping) is part of the progress.
    SPLITVEIL_RETURN_IF_ERROR(WriteCheckpoint(epoch + 1, 0));
  }
  return absl::OkStatus();
}

absl::Status NonLabelSession::TrainEpoch(uint32_t epoch, uint32_t first) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<TrainingStream> stream, options_.peer->Train());
  recorder_->Restart();  // The evaluation between epochs is no part of a step.
  absl::Status status = TrainToCheckpoints(epoch, first, *stream);
  if (status.ok()) {
    return stream->Finish();
  }
  // The label party has recorded this batch, too: both ledgers end with the same step.
  status.Update(step_->Record());
  // A broken stream is only the consequence of what the label party decided.
  const absl::Status verdict = absl::IsUnavailable(status) ? stream->Finish() : status;
  return verdict.ok() ? status : verdict;
}

absl::Status NonLabelSession::TrainToCheckpoints(uint32_t epoch, uint32_t first, TrainingStream& stream) {
  const auto batches = static_cast<uint32_t>(schedule_->batches_per_epoch());
  while (first < batches && !stop_.seen()) {
    const uint32_t end = NextPlace(epoch, first, batches, options_.agreement.checkpoint_steps());
    SPLITVEIL_RETURN_IF_ERROR(TrainBatches(epoch, first, end, stream));
    if (end < batches && !stop_.seen()) {
      SPLITVEIL_RETURN_IF_ERROR(WriteCheckpoint(epoch, end));
    }
    first = end;
  }
  return absl::OkStatus();
}

absl::Status NonLabelSession::TrainBatches(uint32_t epoch, uint32_t first, uint32_t end, TrainingStream& stream) {
  uint32_t sent = first;
  uint32_t to_send = end;
  for (uint32_t received = first; received < to_send; ++received) {
    // A stop ends the sending, not the receiving: what is in flight is still learnt from.
    if (stop_.Asked()) {
      to_send = sent;
    }
    while (sent < to_send && sent - received < lifecycle_.in_flight_batches()) {
      SPLITVEIL_RETURN_IF_ERROR(step_->Send({epoch, sent++}, stream));
    }
    // While the label party computes: the next rows, and the attacks on the latest gradients.
    if (sent < to_send) {
      step_->Gather({epoch, sent});
    }
    SPLITVEIL_RETURN_IF_ERROR(step_->Attack());
    if (received < sent) {
      SPLITVEIL_RETURN_IF_ERROR(step_->Learn({epoch, received}, stream));
    }
    // Nothing more is sent, during which the last batch could be attacked.
    if (received + 1 >= sent && sent == to_send) {
      SPLITVEIL_RETURN_IF_ERROR(step_->Attack());
    }
  }
  return absl::OkStatus();
}

absl::Status NonLabelSession::Evaluate(uint32_t epoch) {
  const bool before_training = options_.agreement.progressive_validation();
  const std::vector<uint32_t> examples = before_training ? schedule_->positions() : split_.Evaluated();
  SPLITVEIL_ASSIGN_OR_RETURN(const v1::EvaluateResponse response, reconnector_.Persist([&] {
    return EvaluateExamples(*options_.peer, Source(), examples, epoch);
  }));
  SPLITVEIL_RETURN_IF_ERROR(RecordPredicted("evaluated", epoch));
  SPLITVEIL_RETURN_IF_ERROR(protocol_.Take(response.stop_training() ? Answer::kEnough : Answer::kEvaluated));
  if (before_training) {
    return absl::OkStatus();
  }
  stopped_early_ = response.stop_training();
  SPLITVEIL_RETURN_IF_ERROR(stopped_early_ ? lifecycle_.RecordEarlyStop(epoch + 1) : absl::OkStatus());
  if (!kept_model_.Take(response.kept(), epoch + 1, *model_)) {
    return AsRefusal(absl::InvalidArgumentError("Evaluate: the label party keeps an epoch that it never named"));
  }
  return response.kept() == v1::EvaluateResponse::THESE
             ? lifecycle_.ledger()->RecordEvent("kept", absl::StrCat("the weights of epoch ", epoch + 1, " so far"))
             : absl::OkStatus();
}

absl::Status NonLabelSession::AuditAttributes(uint32_t epoch) {
  if (!attribute_audit_->IsDue(epoch, stopped_early_ || epoch + 1 == options_.agreement.epochs())) {
    return absl::OkStatus();
  }
  SPLITVEIL_RETURN_IF_ERROR(reconnector_.Persist([&] { return attribute_audit_->Embed(epoch); }));
  SPLITVEIL_RETURN_IF_ERROR(RecordPredicted("auxiliary", epoch));
  return reconnector_.Persist([&] { return attribute_audit_->Guess(epoch); });
}

absl::Status NonLabelSession::RecordPredicted(const char* examples, uint32_t epoch) {
  const std::string when =
      options_.agreement.progressive_validation() ? "before the first epoch" : absl::StrCat("after epoch ", epoch);
  return RecordPrivacyLosses(*protected_model_, examples, when, *lifecycle_.ledger());
}

absl::Status NonLabelSession::CompleteModel() {
  const int64_t auxiliary_labels = options_.agreement.audit().auxiliary_labels();
  if (auxiliary_labels == 0) {
    return absl::OkStatus();
  }
  CompletionAttackRunner::Options completion;
  completion.peer = options_.peer;
  completion.run_id = lifecycle_.run_id();
  completion.auxiliary_labels = auxiliary_labels;
  completion.batch_size = options_.agreement.batch_size();
  completion.bottom = BottomOptions(options_.agreement, options_.config, *options_.data);
  completion.features = features_.get();
  completion.train = schedule_->positions();
  completion.stop = &stop_;
  SPLITVEIL_ASSIGN_OR_RETURN(const int64_t labels,
                             CompletionAttackRunner(std::move(completion)).Report(model_->Parameters()));
  // The operator has lowered the disclosure since the last batch.
  if (labels == 0) {
    return attacks_->RecordLowered("once it is trained");
  }
  return lifecycle_.ledger()->RecordEvent("auxiliary_labels",
                                          absl::StrCat("completed the bottom model with ", labels, " labels"));
}

std::optional<RunFigures> NonLabelSession::figures() const {
  if (recorder_ == nullptr && !(only_predicts() && features_ != nullptr)) {
    return std::nullopt;
  }
  RunFigures figures;
  figures.run_id = lifecycle_.run_id();
  figures.ended = lifecycle_.ended();
  if (account_.all_runs().has_value()) {
    const double mu = protected_model_->Mu(ActivationReleases(options_.agreement));
    figures.activation_auc_bound = GaussianPrivacy::FromMu(mu)->AucBound();
    figures.all_activation_auc_bound = account_.all_runs()->auc_bound;
  }
  if (recorder_ == nullptr) {  // Which only a training has.
    figures.only_predicts = true;
    return figures;
  }
  const StepTotals& totals = recorder_->totals();
  figures.epochs = totals.steps / schedule_->batches_per_epoch();
  figures.agreed_epochs = options_.agreement.epochs();
  figures.steps = totals.steps;
  figures.examples = totals.examples;
  figures.seconds = totals.seconds;
  figures.bytes_sent = totals.bytes_sent;
  figures.bytes_received = totals.bytes_received;
  // Only what the disclosure lets this party read; the label party's report has all of them.
  figures.attacks = StrongestFirst(attacks_->disclosed());
  figures.attribute_leaks = attribute_audit_->strongest();
  return figures;
}

ActivationsSource NonLabelSession::Source() {
  const v1::RunAgreement& agreement = options_.agreement;
  return {lifecycle_.run_id(),
          agreement.batch_size(),
          agreement.wire_dtype(),
          protected_model_.get(),
          features_.get(),
          &stop_,
          &account_};
}

}  // namespace splitveil
