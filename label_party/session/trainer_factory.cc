#include "label_party/session/trainer_factory.h"

#include <utility>

#include "common/schedule/party_seed.h"
#include "common/schedule/train_test_split.h"
#include "label_party/protection/run_budget.h"

namespace splitveil {

absl::StatusOr<std::unique_ptr<Trainer>> MakeTrainer(TrainerInputs inputs) {
  const v1::RunAgreement& agreement = inputs.agreement;
  v1::GradientProtection protection = inputs.config.protection();
  FillPlannedEpochs(agreement.epochs(), protection);
  absl::StatusOr<ReleaseGate> gate = ReleaseGate::Create(inputs.config.release(), protection);
  if (!gate.ok()) {
    return gate.status();
  }
  const Dataset& data = *inputs.data;
  TrainTestSplit split = SplitRule(agreement.split_salt(), agreement.test_fraction()).Split(data.ids(), inputs.rows);
  absl::StatusOr<Schedule> schedule = Schedule::Create(
      inputs.seed, std::move(split.train), ScheduleOptions{agreement.batch_size(), agreement.minimum_batch_size()});
  if (!schedule.ok()) {
    return schedule.status();
  }
  TopModelOptions model_options;
  model_options.spec = inputs.config.model();
  model_options.optimizer = inputs.config.party().optimizer();
  model_options.features = data.features();
  model_options.cut_width = agreement.cut_width();
  model_options.seed = WeightSeed(SeedRole::kLabelParty, inputs.config.party().reproducible_seed());
  absl::StatusOr<std::unique_ptr<TopModel>> model = TopModel::Create(model_options);
  if (!model.ok()) {
    return model.status();
  }
  std::vector<uint8_t> labels;
  labels.reserve(inputs.rows.size());
  for (uint32_t row : inputs.rows) {
    labels.push_back(data.labels()[row]);
  }
  data.ReleaseMemory();  // Of the ids and the labels.
  auto features =
      std::make_unique<FeatureTable>(inputs.data, std::vector<uint32_t>(inputs.rows.begin(), inputs.rows.end()));
  std::vector<float> targets = inputs.protection->TrainingTargets(labels);
  auto trainer = std::make_unique<Trainer>(
      TrainerParts{agreement, std::move(features), std::move(labels), std::move(targets), *std::move(schedule),
                   std::move(split.test), *std::move(model), std::move(inputs.protection), *std::move(gate),
                   protection.distance_correlation().weight(), inputs.auditor, inputs.ledger});
  trainer->result().run_id = std::move(inputs.run_id);
  return trainer;
}

}  // namespace splitveil
