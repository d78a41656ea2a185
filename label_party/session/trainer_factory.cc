#include "label_party/session/trainer_factory.h"

#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/process/runtime.h"
#include "common/schedule/party_seed.h"
#include "common/schedule/train_test_split.h"
#include "common/status/status_macros.h"
#include "label_party/protection/run_budget.h"

namespace splitveil {
namespace {

// With the weights and the optimiser's state of the checkpoint, where there is one.
absl::StatusOr<std::unique_ptr<TopModel>> MakeModel(const TrainerInputs& inputs, const FeatureShape& features) {
  absl::StatusOr<std::unique_ptr<TopModel>> model =
      TopModel::Create(TopOptions(inputs.agreement, inputs.config, features));
  if (model.ok() && inputs.continued != nullptr) {
    const absl::StatusOr<NamedParameters> state = inputs.continued->State();
    SPLITVEIL_RETURN_IF_ERROR(state.ok() ? (*model)->SetTrainingState(*state) : state.status());
  }
  return model;
}

// Nothing remembered where there is no checkpoint.
absl::StatusOr<LabelState> EarlierState(const TrainerInputs& inputs) {
  return inputs.continued == nullptr
             ? LabelState()
             : LabelStateFrom(inputs.continued->header().label_party(), inputs.agreement.cut_width());
}

absl::Status RecordClipping(double norm, Ledger& ledger) {
  if (norm == 0) {
    return absl::OkStatus();
  }
  return ledger.RecordEvent("clip_cut_gradients", absl::StrCat("before the protection, each example's to norm ", norm));
}

}  // namespace

TopModelOptions TopOptions(const v1::RunAgreement& agreement, const v1::LabelPartyConfig& config,
                           const FeatureShape& features) {
  TopModelOptions options;
  options.spec = config.model();
  options.cut_layer = agreement.cut_layer();
  options.optimizer = config.party().optimizer();
  options.features = features;
  options.cut_width = agreement.cut_width();
  options.seed = WeightSeed(SeedRole::kLabelParty, config.party().reproducible_seed());
  return options;
}

absl::StatusOr<std::unique_ptr<Trainer>> MakeTrainer(TrainerInputs inputs) {
  const v1::RunAgreement& agreement = inputs.agreement;
  v1::GradientProtection protection = inputs.config.protection();
  FillPlannedEpochs(agreement.epochs(), protection);
  SPLITVEIL_ASSIGN_OR_RETURN(ReleaseGate gate, ReleaseGate::Create(inputs.config.release(), protection));
  const Dataset& data = *inputs.data;
  TrainTestSplit split = SplitRule(agreement.split_salt(), agreement.test_fraction()).Split(data.ids(), inputs.rows);
  if (agreement.progressive_validation()) {
    split.test.resize(inputs.rows.size());
    std::iota(split.test.begin(), split.test.end(), 0);
  }
  SPLITVEIL_ASSIGN_OR_RETURN(Schedule schedule,
                             Schedule::Create(inputs.seed, std::move(split.train),
                                              ScheduleOptions{agreement.batch_size(), agreement.minimum_batch_size()}));
  SPLITVEIL_ASSIGN_OR_RETURN(std::unique_ptr<TopModel> model, MakeModel(inputs, data.features()));
  SPLITVEIL_ASSIGN_OR_RETURN(const LabelState earlier, EarlierState(inputs));
  if (earlier.moments) {
    inputs.protection.gradients->RestoreMoments(*earlier.moments);
  }
  std::vector<uint8_t> labels;
  labels.reserve(inputs.rows.size());
  for (uint32_t row : inputs.rows) {
    labels.push_back(data.labels()[row]);
  }
  data.ReleaseMemory();  // Of the ids and the labels,
  ReturnFreeMemory();    // of the alignment.
  auto features =
      std::make_unique<FeatureTable>(inputs.data, std::vector<uint32_t>(inputs.rows.begin(), inputs.rows.end()));
  std::vector<float> targets = inputs.protection.TrainingTargets(labels);
  auto trainer = std::make_unique<Trainer>(
      TrainerParts{agreement, std::move(features), std::move(labels), std::move(targets), std::move(schedule),
                   std::move(split.test), std::move(model), std::move(inputs.protection.gradients), std::move(gate),
                   protection.distance_correlation().weight(), inputs.config.clip_cut_gradients(),
                   inputs.continued == nullptr ? "" : inputs.continued->name(), earlier.cumulative_sum_kl,
                   inputs.auditor, inputs.ledger});
  trainer->result().run_id = std::move(inputs.run_id);
  SPLITVEIL_RETURN_IF_ERROR(RecordClipping(inputs.config.clip_cut_gradients(), *inputs.ledger));
  return trainer;
}

}  // namespace splitveil
