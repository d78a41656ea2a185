#include "tests/bench/centralized_baseline/centralized_baseline.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/config/agreement.h"
#include "common/config/text_config.h"
#include "common/dataset/prepared_data.h"
#include "common/schedule/schedule.h"
#include "common/status/status_macros.h"
#include "label_party/policy/label_config.h"
#include "label_party/top/top_model.h"
#include "label_party/training/epoch_choice.h"
#include "nonlabel_party/bottom/bottom_model.h"
#include "tests/bench/centralized_baseline/joined_data.h"

namespace splitveil {
namespace {

using Clock = std::chrono::steady_clock;

absl::StatusOr<JointSeed> CombineSeeds(const CentralizedBaselineConfig& config) {
  SPLITVEIL_ASSIGN_OR_RETURN(
      SeedExchange label,
      SeedExchange::Create(SeedRole::kLabelParty,
                           SeedContribution(SeedRole::kLabelParty, config.label_config.party().reproducible_seed())));
  SPLITVEIL_ASSIGN_OR_RETURN(
      const SeedExchange nonlabel,
      SeedExchange::Create(
          SeedRole::kNonLabelParty,
          SeedContribution(SeedRole::kNonLabelParty, config.nonlabel_config.party().reproducible_seed())));
  return label.Combine(nonlabel.commitment(), nonlabel.reveal());
}

// Both halves, with the data they learn from.
class JoinedModel {
 public:
  static absl::StatusOr<JoinedModel> Create(const CentralizedBaselineConfig& config, const JoinedData* data) {
    BottomModelOptions bottom_options;
    bottom_options.spec = config.nonlabel_config.model();
    bottom_options.cut_layer = config.agreement.cut_layer();
    bottom_options.optimizer = config.nonlabel_config.party().optimizer();
    bottom_options.features = data->nonlabel_features->shape();
    bottom_options.cut_width = config.agreement.cut_width();
    bottom_options.seed = WeightSeed(SeedRole::kNonLabelParty, config.nonlabel_config.party().reproducible_seed());
    SPLITVEIL_ASSIGN_OR_RETURN(std::unique_ptr<BottomModel> bottom, BottomModel::Create(bottom_options));
    TopModelOptions top_options;
    top_options.spec = config.label_config.model();
    top_options.cut_layer = config.agreement.cut_layer();
    top_options.optimizer = config.label_config.party().optimizer();
    top_options.features = data->label_features->shape();
    top_options.cut_width = config.agreement.cut_width();
    top_options.seed = WeightSeed(SeedRole::kLabelParty, config.label_config.party().reproducible_seed());
    SPLITVEIL_ASSIGN_OR_RETURN(std::unique_ptr<TopModel> top, TopModel::Create(top_options));
    JoinedModel model;
    model.data_ = data;
    model.bottom_ = std::move(bottom);
    model.top_ = std::move(top);
    return model;
  }

  // One batch; adds the sum of its losses to `loss_sum`.
  absl::Status Step(absl::Span<const uint32_t> positions, double& loss_sum) {
    SPLITVEIL_ASSIGN_OR_RETURN(const ConstMatrixView activations,
                               bottom_->Forward(data_->nonlabel_features->Gather(positions)));
    const FeatureBatch own = data_->label_features->Gather(positions);
    SPLITVEIL_ASSIGN_OR_RETURN(const TopStep head,
                               top_->ForwardBackward(activations, own, TrainingLabels(positions), /*targets=*/{}));
    loss_sum += head.mean_loss * static_cast<double>(positions.size());
    SPLITVEIL_RETURN_IF_ERROR(bottom_->Backward(head.cut_gradient, /*layers=*/{}).status());
    SPLITVEIL_RETURN_IF_ERROR(top_->Update());
    return bottom_->Update();
  }

  // `test`: positions.
  absl::StatusOr<Evaluation> Test(absl::Span<const uint32_t> test, int64_t batch_size) {
    std::vector<float> logits;
    for (size_t first = 0; first < test.size(); first += batch_size) {
      const absl::Span<const uint32_t> positions = test.subspan(first, batch_size);
      SPLITVEIL_ASSIGN_OR_RETURN(const Matrix activations,
                                 bottom_->Predict(data_->nonlabel_features->Gather(positions)));
      SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<float> batch,
                                 top_->Predict(activations, data_->label_features->Gather(positions)));
      logits.insert(logits.end(), batch.begin(), batch.end());
    }
    return Evaluate(logits, LabelsOf(test));
  }

 private:
  std::vector<float> TrainingLabels(absl::Span<const uint32_t> positions) const {
    const std::vector<uint8_t> labels = LabelsOf(positions);
    return {labels.begin(), labels.end()};
  }

  std::vector<uint8_t> LabelsOf(absl::Span<const uint32_t> positions) const {
    std::vector<uint8_t> labels;
    labels.reserve(positions.size());
    for (uint32_t position : positions) {
      labels.push_back(data_->labels[position]);
    }
    return labels;
  }

  const JoinedData* data_ = nullptr;
  std::unique_ptr<BottomModel> bottom_;
  std::unique_ptr<TopModel> top_;
};

nlohmann::json NumberOrNull(double number) {
  return std::isfinite(number) ? nlohmann::json(number) : nlohmann::json(nullptr);
}

}  // namespace

absl::StatusOr<CentralizedBaselineConfig> LoadCentralizedBaselineConfig(const std::string& agreement_path,
                                                                        const std::string& label_config_path,
                                                                        const std::string& nonlabel_config_path) {
  CentralizedBaselineConfig config;
  SPLITVEIL_ASSIGN_OR_RETURN(config.agreement, LoadAgreement(agreement_path));
  SPLITVEIL_RETURN_IF_ERROR(LoadTextConfig(label_config_path, config.label_config));
  SPLITVEIL_RETURN_IF_ERROR(LoadTextConfig(nonlabel_config_path, config.nonlabel_config));
  SPLITVEIL_RETURN_IF_ERROR(ValidateLabelConfig(config.label_config, config.agreement));
  return config;
}

absl::StatusOr<JoinedData> OpenJoinedData(const CentralizedBaselineConfig& config) {
  SPLITVEIL_ASSIGN_OR_RETURN(std::shared_ptr<const Dataset> label,
                             OpenPreparedData(config.label_config.party(), config.agreement, PreparedFor::kLabelParty));
  SPLITVEIL_ASSIGN_OR_RETURN(
      std::shared_ptr<const Dataset> nonlabel,
      OpenPreparedData(config.nonlabel_config.party(), config.agreement, PreparedFor::kNonLabelParty));
  return JoinData(std::move(label), std::move(nonlabel), config.agreement);
}

absl::StatusOr<CentralizedBaselineResult> TrainCentralizedBaseline(const CentralizedBaselineConfig& config,
                                                                   const JoinedData& data,
                                                                   const std::function<bool()>& stop) {
  SPLITVEIL_ASSIGN_OR_RETURN(const JointSeed seed, CombineSeeds(config));
  SPLITVEIL_ASSIGN_OR_RETURN(
      Schedule schedule,
      Schedule::Create(seed, data.split.train, {config.agreement.batch_size(), config.agreement.minimum_batch_size()}));
  SPLITVEIL_ASSIGN_OR_RETURN(JoinedModel model, JoinedModel::Create(config, &data));
  std::optional<EarlyStopper> early_stopper;
  if (config.label_config.has_early_stopping()) {
    early_stopper.emplace(config.label_config.early_stopping(), data.split.validation.empty() ? "test" : "validation");
  }
  CentralizedBaselineResult result;
  for (uint32_t epoch = 0; epoch < config.agreement.epochs(); ++epoch) {
    double loss_sum = 0;
    const Clock::time_point started = Clock::now();
    for (int64_t batch = 0; batch < schedule.batches_per_epoch(); ++batch) {
      if (stop()) {
        return absl::CancelledError("stopped on request");
      }
      SPLITVEIL_RETURN_IF_ERROR(model.Step(schedule.BatchRows(epoch, batch), loss_sum));
      ++result.steps;
    }
    result.train_seconds += std::chrono::duration<double>(Clock::now() - started).count();
    ++result.epochs;
    result.trained_examples += static_cast<int64_t>(data.split.train.size());
    result.final_train_log_loss = loss_sum / static_cast<double>(data.split.train.size());
    for (const auto& [positions, evaluations] :
         {std::pair(&data.split.test, &result.tests), std::pair(&data.split.validation, &result.validations)}) {
      if (!positions->empty()) {
        SPLITVEIL_ASSIGN_OR_RETURN(const Evaluation evaluation, model.Test(*positions, config.agreement.batch_size()));
        evaluations->push_back(evaluation);
      }
    }
    const std::vector<Evaluation>& choosing = result.validations.empty() ? result.tests : result.validations;
    if (early_stopper.has_value() && !choosing.empty() &&
        early_stopper->ShouldStop({epoch, choosing.back().log_loss, choosing.back().auc})) {
      break;
    }
  }
  return result;
}

std::string CentralizedBaselineResultJson(const CentralizedBaselineResult& result, int threads) {
  const bool validated = !result.validations.empty(), tested = !result.tests.empty();
  const std::vector<Evaluation>& choosing = validated ? result.validations : result.tests;
  const auto best = std::max_element(choosing.begin(), choosing.end(),
                                     [](const Evaluation& a, const Evaluation& b) { return a.auc < b.auc; });
  const auto epoch = static_cast<size_t>(best - choosing.begin());
  const double nothing = std::numeric_limits<double>::quiet_NaN();
  return nlohmann::ordered_json{
      {"test_auc", NumberOrNull(tested ? result.tests[epoch].auc : nothing)},
      {"test_log_loss", NumberOrNull(tested ? result.tests[epoch].log_loss : nothing)},
      {"best_epoch", choosing.empty() ? nullptr : nlohmann::ordered_json(epoch + 1)},
      {"best_epoch_chosen_on", choosing.empty() ? nullptr : nlohmann::ordered_json(validated ? "validation" : "test")},
      {"validation_auc", NumberOrNull(validated ? best->auc : nothing)},
      {"final_test_auc", NumberOrNull(tested ? result.tests.back().auc : nothing)},
      {"final_train_log_loss", NumberOrNull(result.final_train_log_loss)},
      {"epochs", result.epochs},
      {"steps", result.steps},
      {"train_seconds", result.train_seconds},
      {"examples_per_second", NumberOrNull(static_cast<double>(result.trained_examples) / result.train_seconds)},
      {"threads", threads}}
      .dump();
}

}  // namespace splitveil
