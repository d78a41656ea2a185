#include "label_party/training/training.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/checkpoint/progress_archive.h"
#include "common/figures/run_figures.h"
#include "common/leakage/bounds.h"
#include "common/ledger/ledger_reader.h"
#include "common/schedule/schedule.h"
#include "common/status/status_macros.h"
#include "common/telemetry/log.h"
#include "label_party/label_privacy/label_targets.h"
#include "label_party/protection/protection_factory.h"
#include "label_party/storage/label_history.h"
#include "label_party/top/release_head_models.h"
#include "label_party/training/label_checks.h"
#include "label_party/training/own_features.h"

namespace splitveil {
namespace {

constexpr size_t kMostBaseRateTargets = 2'000'000;  // They are drawn once more than training needs.

// As the protection needs it: with a head for what is sent, or without.
absl::StatusOr<std::unique_ptr<TopModel>> MakeFreshModel(const TrainingInputs& inputs) {
  TopModelOptions options = TopOptions(inputs.agreement, inputs.config, *inputs.data);
  // Both heads start from the same seed: before the first step they are one model.
  absl::StatusOr<std::unique_ptr<TopModel>> releasing = TopModel::Create(options);
  if (!releasing.ok() || !inputs.config.protection().has_gaussian_label_dp()) {
    return releasing;
  }
  if (inputs.config.protection().gaussian_label_dp().release_head_predicts()) {
    return MakeOneHeadedTopModel(*std::move(releasing));
  }
  options.cut_gradient = false;
  SPLITVEIL_ASSIGN_OR_RETURN(std::unique_ptr<TopModel> predicting, TopModel::Create(options));
  return MakeTwoHeadedTopModel(*std::move(releasing), std::move(predicting), options.task.outputs());
}

// With the weights and the optimiser's state of the checkpoint, where there is one.
absl::StatusOr<std::unique_ptr<TopModel>> MakeModel(const TrainingInputs& inputs) {
  absl::StatusOr<std::unique_ptr<TopModel>> model = MakeFreshModel(inputs);
  if (model.ok() && inputs.resumed != nullptr) {
    const absl::StatusOr<NamedParameters> state = inputs.resumed->State();
    SPLITVEIL_RETURN_IF_ERROR(state.ok() ? (*model)->SetTrainingState(*state) : state.status());
  }
  return model;
}

// Nothing remembered where there is no checkpoint. Errors: see CheckInitialIsCounted.
absl::StatusOr<LabelState> EarlierState(const TrainingInputs& inputs) {
  if (inputs.resumed == nullptr) {
    return LabelState();
  }
  SPLITVEIL_ASSIGN_OR_RETURN(LabelState earlier, LabelStateFrom(inputs.resumed->header().label_party()));
  // The peer says from which of this party's checkpoints the run resumes: an older one hands nothing back.
  earlier.cumulative_sum_kl = std::max(earlier.cumulative_sum_kl, inputs.counted_sum_kl);
  if (!inputs.is_continued) {  // One that goes on is counted as it was.
    SPLITVEIL_RETURN_IF_ERROR(
        CheckInitialIsCounted(inputs.config, inputs.data->task(), inputs.resumed->header(), earlier));
  }
  return earlier;
}

// As LabelTargets takes them.
struct NoisedExamples {
  std::vector<NoiseRow> rows;
  std::vector<float> labels;
};

NoisedExamples ExamplesAt(const TrainingData& data, absl::Span<const uint32_t> positions) {
  NoisedExamples examples;
  examples.rows.reserve(positions.size());
  examples.labels.reserve(positions.size());
  for (const uint32_t position : positions) {
    examples.rows.push_back(NoiseRow::OfId(data.features->id(position)));
    examples.labels.push_back(data.LabelAt(position));
  }
  return examples;
}

// Counts what the training examples train on in place of their labels, before any of it exists.
absl::Status CountTargets(const TrainingInputs& inputs, const TrainingData& data) {
  if (data.targets == nullptr) {
    return absl::OkStatus();
  }
  const NoisedExamples noised = ExamplesAt(data, data.schedule.positions());
  inputs.data->ReleaseMemory();  // Of the ids.
  return data.targets->Count(inputs.run_id, noised.rows, noised.labels);
}

// Has a head that predicts from noised labels alone begin with what these say of all examples together. From 0, its
// first steps learn that most are negative, the surer the more an example stands out, and labels as noisy as these do
// not put that right where positives are rare. A head that only releases begins with 0, and trains the other party
// better so (deploy/EXPERIMENTS.md). Only the first draw is used: what the first epoch sends would else reveal
// something of later draws, which its bound does not count.
absl::Status BeginWithBaseRates(const TrainingInputs& inputs, const TrainingData& data, TopModel& model) {
  if (!inputs.config.protection().gaussian_label_dp().release_head_predicts() || inputs.resumed != nullptr ||
      data.targets->target_noise(0) == 0) {
    return absl::OkStatus();
  }
  std::vector<uint32_t> positions = data.schedule.positions();
  positions.resize(std::min(positions.size(), kMostBaseRateTargets));
  const NoisedExamples noised = ExamplesAt(data, positions);
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<float> targets,
                             data.targets->TrainingTargets(noised.rows, noised.labels, /*epoch=*/0));
  std::vector<double> sums(static_cast<size_t>(data.task.outputs()));
  for (size_t i = 0; i < targets.size(); ++i) {
    sums[i % sums.size()] += targets[i];
  }
  const auto count = static_cast<double>(positions.size());
  // The standard error of a rate, and what no rate is told from 0 below.
  const double least = std::min(0.5, data.targets->target_noise(0) / std::sqrt(count));
  std::vector<float> outputs;
  for (const double sum : sums) {
    const double rate = std::clamp(sum / count, least, 1 - least);
    outputs.push_back(static_cast<float>(std::log(rate) - (sums.size() == 1 ? std::log(1 - rate) : 0)));
  }
  return BeginWithOutputs(outputs, model);
}

std::optional<AccountedReleases> AccountedOf(const LabelTargets* targets) {
  return targets == nullptr ? std::nullopt : targets->accounted();
}

// What other runs released: by the account, which has counted the run of the checkpoint, too (CheckInitialIsCounted),
// or, where none counts, by the checkpoint, `earlier`.
LabelState EarlierReleases(const LabelState& earlier, const std::optional<AccountedReleases>& accounted) {
  return accounted ? LabelState{accounted->earlier_sum_kl, accounted->account_id}
                   : LabelState{earlier.cumulative_sum_kl, ""};
}

// On the disk before anything is released: by the account's row a later run tells an older copy of it, and of a run
// that was killed the event says whether it had come so far.
absl::Status RecordWhatFollows(const TrainingInputs& inputs, absl::string_view start, int64_t examples) {
  SPLITVEIL_RETURN_IF_ERROR(
      inputs.ledger->RecordEvent(kReleasesFollow, absl::StrCat(kAfterFirstSlice, ReleasesFollow(examples, start))));
  if (!inputs.planned.counted) {
    return inputs.ledger->Commit();
  }
  const AllRunsRow& row = *inputs.planned.counted;
  LogInfo("privacy account: ", row.examples,
          " examples counted; AUC bound of all their releases, this run's included: ",
          absl::StrFormat("%.6f", row.auc_bound));
  SPLITVEIL_RETURN_IF_ERROR(inputs.ledger->Record(row));
  return inputs.ledger->Commit();
}

// What all runs come to, this one's releases included: by the account, and by the ledger. `result`: of Beginnings.
absl::Status BoundAllRuns(const std::optional<AccountedReleases>& accounted, int64_t examples, TrainingInputs& inputs,
                          RunResult& result) {
  if (accounted) {
    // What it had counted before this run was interrupted remains, be it an older copy now.
    SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<LedgerReader> ledger, LedgerReader::Open(inputs.ledger->path()));
    SPLITVEIL_ASSIGN_OR_RETURN(const std::optional<AllRunsRow> before, ledger->AllRuns(inputs.run_id));
    const double counted = result.AucBoundWith(result.earlier_sum_kl);
    inputs.planned.counted = {accounted->account_id, examples, std::max(counted, before ? before->auc_bound : 0),
                              inputs.data->rows()};
  }
  // Before it was interrupted, if this run goes on.
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<EventRow> events, inputs.ledger->Events());
  result.first_slice_sent = MayHaveReleasedBefore(events);
  result.gave_labels = HasEvent(events, "disclosed");
  // Once more: another run may have ended, and a copy of the account been put in its place, since this run was opened.
  const std::string& ledger_path = inputs.ledger->path();
  SPLITVEIL_ASSIGN_OR_RETURN(std::vector<std::string> lost,
                             LostStartsNow(ledger_path, inputs.planned.run, inputs.config, inputs.data->task()));
  for (const std::string& start : lost) {
    if (!absl::c_linear_search(inputs.planned.lost, start)) {
      SPLITVEIL_RETURN_IF_ERROR(inputs.ledger->RecordEvent(kLostByAccount, start));
    }
  }
  inputs.planned.lost = std::move(lost);
  // First this run's own, then those of others: of two that begin at once, one sees the other.
  SPLITVEIL_RETURN_IF_ERROR(RecordWhatFollows(inputs, accounted ? accounted->start : "", examples));
  LabelRun own = inputs.planned;
  SPLITVEIL_ASSIGN_OR_RETURN(const AllRunsBound with_ledger, BoundWithLedger(ledger_path, own));
  result.ledger_auc_bound = with_ledger.possible;
  if (accounted) {  // A limit is one of the examples of a run, of which others may be more exposed.
    own.counted->auc_bound = result.AucBoundWith(std::max(0.0, accounted->of_examples_sum_kl - accounted->run_sum_kl));
  }
  return CheckEarlierRuns(ledger_path, own);
}

// What is known of a run before its first batch.
RunResult Beginnings(const TrainingInputs& inputs, double earlier_sum_kl,
                     const std::optional<AccountedReleases>& accounted) {
  RunResult result;
  result.run_id = inputs.run_id;
  result.task = inputs.data->task();
  result.protection = inputs.protection.gradients->name();
  result.aligned_examples = static_cast<int64_t>(inputs.rows.size());
  result.epochs = inputs.agreement.epochs();
  result.resumed_from = inputs.resumed == nullptr ? "" : inputs.resumed->name();  // Of a continued run: its own.
  result.earlier_sum_kl = earlier_sum_kl;
  // With an account, 0: as in ProtectionReport.
  const bool has_own_flips = inputs.config.protection().has_label_dp() && !inputs.config.has_privacy_account();
  result.flip_epsilon = has_own_flips ? inputs.config.protection().label_dp().epsilon() : 0;
  result.kept = {KeepByOf(inputs.config, inputs.agreement), inputs.config.early_stopping().metric()};
  if (accounted) {
    result.cumulative_sum_kl = accounted->run_sum_kl;  // Before the first row of it is sent.
  }
  return result;
}

absl::Status RecordClipping(double norm, Ledger& ledger) {
  if (norm == 0) {
    return absl::OkStatus();
  }
  return ledger.RecordEvent("clip_cut_gradients", absl::StrCat("before the protection, each example's to norm ", norm));
}

// Null: none are agreed.
absl::StatusOr<std::unique_ptr<AttributeAudit>> MakeAttributeAudit(const TrainingInputs& inputs) {
  if (inputs.known_attributes == nullptr) {
    return nullptr;
  }
  return AttributeAudit::Create(
      {inputs.agreement, inputs.config, inputs.known_attributes, *inputs.data, inputs.rows, inputs.ledger});
}

// As a part of the progress, also where none are agreed.
struct AgreedAttacks {
  template <typename Archive>
  void serialize(Archive& archive) {
    if (audit != nullptr) {
      archive(*audit);
    }
  }

  AttributeAudit* audit;
};

TrainingOrder::Options OrderOf(const TrainingInputs& inputs, const BatchSource& source) {
  TrainingOrder::Options order;
  order.epochs = inputs.agreement.epochs();
  order.batches_per_epoch = source.batches_per_epoch();
  order.test_examples = source.test_examples();
  order.progressive_validation = inputs.agreement.progressive_validation();
  order.stops_early = inputs.config.has_early_stopping();
  return order;
}

// What ROUNDED will have disclosed; both ledgers hold the agreement, too.
absl::Status RecordAnswers(const v1::RunAgreement& agreement, Ledger& ledger) {
  const v1::RoundedAnswers& rounded = agreement.audit().rounded();
  if (agreement.audit().disclosure() != v1::ROUNDED) {
    return absl::OkStatus();
  }
  return ledger.RecordEvent("rounded_answers",
                            absl::StrCat("up to ", rounded.max_answers(), " on batches of at least ",
                                         rounded.minimum_batch(), ", each of mu ", rounded.mu(), ", at most ",
                                         agreement.epochs(), " on an example: counted among its releases"));
}

// What own features alone tell, into the ledger and `result`, beside a bound that is proved and not about them. A
// continued run has it from its progress.
absl::Status TestOwnFeatures(const TrainingInputs& inputs, const TrainingData& data, RunResult& result) {
  if (!IsBoundProved(result.protection) || inputs.is_continued || inputs.agreement.progressive_validation()) {
    return absl::OkStatus();
  }
  const std::optional<std::vector<float>> outputs =
      PredictFromOwnFeatures(TopOptions(inputs.agreement, inputs.config, *inputs.data), data,
                             inputs.agreement.batch_size(), inputs.agreement.epochs());
  if (!outputs.has_value()) {
    return absl::OkStatus();
  }
  const std::vector<float> labels = data.LabelsAt(TestedPositions(data));
  StepRecorder recorder(result, /*batches_per_epoch=*/1, inputs.ledger);
  SPLITVEIL_RETURN_IF_ERROR(recorder.RecordOwnFeatures(data.task, {*outputs, labels}));
  result.own_features = recorder.result().own_features;
  return absl::OkStatus();
}

void RestoreWhatTheOperatorChanged(const ReleaseJournal& journal, TrainingStep& step, ReleaseGuard& guard,
                                   LeakAuditor& auditor) {
  if (const std::optional<ReleaseJournal::Batch> from = journal.lowered_from(); from.has_value()) {
    step.LowerDisclosureFrom(from->epoch, from->batch);
    auditor.LowerDisclosure();
  }
  for (const ReleaseJournal::RaisedNoise& raised : journal.raised()) {
    guard.RaiseNoise(raised);
  }
}

}  // namespace

TopModelOptions TopOptions(const v1::RunAgreement& agreement, const v1::LabelPartyConfig& config, const Dataset& data) {
  TopModelOptions options;
  options.spec = config.model();
  options.cut_layer = agreement.cut_layer();
  options.optimizer = config.party().optimizer();
  options.features = data.features();
  options.task = data.task();
  options.cut_width = agreement.cut_width();
  // Their noise hides a row's own label alone: its gradient may not be made of others' (architecture rule 3).
  const v1::GradientProtection& protection = config.protection();
  options.rows_apart = protection.has_iso() || protection.has_max_norm() || protection.has_marvell();
  options.seed = WeightSeed(SeedRole::kLabelParty, config.party().reproducible_seed());
  return options;
}

absl::StatusOr<Training> MakeTraining(TrainingInputs inputs) {
  const v1::RunAgreement& agreement = inputs.agreement;
  v1::GradientProtection protection = inputs.config.protection();
  FillPlannedEpochs(agreement.epochs(), protection);
  SPLITVEIL_ASSIGN_OR_RETURN(ReleaseGate gate, ReleaseGate::Create(inputs.config.release(), protection));
  SPLITVEIL_ASSIGN_OR_RETURN(TrainingData data,
                             MakeTrainingData(agreement, inputs.config.label_side_audit(), inputs.seed, inputs.data,
                                              inputs.rows, inputs.protection.labels));
  Training training;
  SPLITVEIL_ASSIGN_OR_RETURN(training.model, MakeModel(inputs));
  SPLITVEIL_ASSIGN_OR_RETURN(LabelState earlier, EarlierState(inputs));
  // From here on the account has counted the run, whatever happens to it.
  SPLITVEIL_RETURN_IF_ERROR(CountTargets(inputs, data));
  SPLITVEIL_RETURN_IF_ERROR(BeginWithBaseRates(inputs, data, *training.model));
  const std::shared_ptr<const LabelTargets> targets = data.targets;
  const std::optional<AccountedReleases> accounted = AccountedOf(targets.get());
  earlier = EarlierReleases(earlier, accounted);
  training.privacy_account = earlier.privacy_account;
  RunResult beginnings = Beginnings(inputs, earlier.cumulative_sum_kl, accounted);
  SPLITVEIL_RETURN_IF_ERROR(BoundAllRuns(accounted, data.schedule.examples(), inputs, beginnings));
  SPLITVEIL_RETURN_IF_ERROR(TestOwnFeatures(inputs, data, beginnings));
  BatchSource::Options source;
  source.batch_size = agreement.batch_size();
  source.in_flight_batches = inputs.in_flight_batches;
  source.needs_whole_batch = training.model->needs_whole_batch();
  // Flips without an account come from a key that a restart does not have: a continued run must send the same ones.
  source.keeps_targets = targets != nullptr && !accounted && targets->draws() == 1 && inputs.journal != nullptr;
  training.source = std::make_unique<BatchSource>(std::move(data), source);
  training.guard = std::make_unique<ReleaseGuard>(std::move(inputs.protection.gradients), std::move(gate),
                                                  training.source->examples(), earlier.cumulative_sum_kl,
                                                  RoundedAnswers(agreement.audit()));
  training.recorder =
      std::make_unique<StepRecorder>(std::move(beginnings), training.source->batches_per_epoch(), inputs.ledger);
  TrainingStepOptions step;
  step.cut_width = agreement.cut_width();
  step.wire_dtype = agreement.wire_dtype();
  step.discloses_hints = agreement.audit().disclosure() == v1::ORACLE;
  step.distance_correlation_weight = protection.distance_correlation().weight();
  step.releases_posterior = targets != nullptr && targets->target_noise(0) > 0;
  step.clip_cut_gradients = inputs.config.clip_cut_gradients();
  step.journal = inputs.journal;
  training.step = std::make_unique<TrainingStep>(step, training.source.get(), training.model.get(),
                                                 training.guard.get(), inputs.auditor, training.recorder.get());
  training.evaluator =
      std::make_unique<TestEvaluator>(agreement.cut_width(), agreement.wire_dtype(), training.source.get(),
                                      training.model.get(), training.recorder.get());
  training.order = std::make_unique<TrainingOrder>(OrderOf(inputs, *training.source));
  SPLITVEIL_ASSIGN_OR_RETURN(training.attribute_audit, MakeAttributeAudit(inputs));
  // Last, when all parts exist: progress is restored into them, and the run's first events are in the ledger already.
  if (inputs.is_continued) {
    SPLITVEIL_RETURN_IF_ERROR(training.Restore(inputs.resumed->progress(), *inputs.auditor));
    if (inputs.journal != nullptr) {
      RestoreWhatTheOperatorChanged(*inputs.journal, *training.step, *training.guard, *inputs.auditor);
    }
    return training;
  }
  SPLITVEIL_RETURN_IF_ERROR(RecordAnswers(agreement, *inputs.ledger));
  SPLITVEIL_RETURN_IF_ERROR(RecordClipping(inputs.config.clip_cut_gradients(), *inputs.ledger));
  return training;
}

std::string Training::Progress(const LeakAuditor& auditor) const {
  return SaveProgress(*source, *guard, *recorder, *order, *step, auditor, AgreedAttacks{attribute_audit.get()});
}

absl::Status Training::Restore(absl::string_view progress, LeakAuditor& auditor) {
  const double earlier_sum_kl = result().earlier_sum_kl;
  AgreedAttacks attacks = {attribute_audit.get()};
  SPLITVEIL_RETURN_IF_ERROR(LoadProgress(progress, *source, *guard, *recorder, *order, *step, auditor, attacks));
  if (!privacy_account.empty()) {  // It may have counted other runs since.
    guard->SetEarlierSumKl(earlier_sum_kl);
    recorder->result().earlier_sum_kl = earlier_sum_kl;
  }
  return absl::OkStatus();
}

CompletionAudit::Options CompletionOptions(const v1::RunAgreement& agreement, const Training& training) {
  CompletionAudit::Options options;
  options.auxiliary_labels = agreement.audit().auxiliary_labels();
  options.max_chunk = agreement.batch_size();
  options.epoch = training.order->epoch() - 1;
  options.key = training.step->AuxiliaryKey();
  options.positions = training.source->training_positions();
  options.labels = training.source->AuditedLabelsOf(options.positions);
  return options;
}

}  // namespace splitveil
