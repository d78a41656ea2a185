// One process against the same model split between two parties.
#include "tests/bench/centralized_baseline/centralized_baseline.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/testing/local_label_party.h"
#include "tests/testing/small_run.h"

namespace splitveil::testing {
namespace {

using ::testing::HasSubstr;

class CentralizedBaselineTest : public ::testing::Test {
 protected:
  CentralizedBaselineTest() : run_(300) {}

  CentralizedBaselineConfig Config() const {
    CentralizedBaselineConfig config;
    config.agreement = run_.agreement;
    config.label_config = run_.label_config;
    config.nonlabel_config = run_.nonlabel_config;
    return config;
  }
  absl::StatusOr<JoinedData> Join() const {
    return JoinData(run_.LabelDataset(), run_.NonLabelDataset(), run_.agreement);
  }
  absl::StatusOr<CentralizedBaselineResult> Train() const {
    const absl::StatusOr<JoinedData> data = Join();
    return data.ok() ? TrainCentralizedBaseline(Config(), *data, [] { return false; }) : data.status();
  }

  SmallRun run_;
};

// With one batch per epoch both train on the same batches, whose rows only have another order.
TEST_F(CentralizedBaselineTest, TrainsWhatTwoPartiesTrain) {
  run_.agreement.set_batch_size(300);
  run_.agreement.set_epochs(20);
  absl::StatusOr<std::unique_ptr<LabelSession>> label = LabelSession::Create(run_.LabelOptions());
  ASSERT_TRUE(label.ok()) << label.status();
  LocalLabelParty peer(label->get());
  const absl::Status split = NonLabelSession(run_.NonLabelOptions(&peer)).Run();
  ASSERT_TRUE(split.ok()) << split;
  const auto expected = nlohmann::json::parse(FullResultJson(*(*label)->figures()));

  const absl::StatusOr<CentralizedBaselineResult> result = Train();
  ASSERT_TRUE(result.ok()) << result.status();
  const auto found = nlohmann::json::parse(CentralizedBaselineResultJson(*result, 1));
  EXPECT_NEAR(found["test_log_loss"], expected["test_log_loss"], 1e-5);
  EXPECT_NEAR(found["final_train_log_loss"], expected["train_log_loss"], 1e-5);
  EXPECT_NEAR(found["test_auc"], expected["test_auc"], 1e-3);
  EXPECT_EQ(found["steps"], expected["steps"]);
  EXPECT_EQ(found["epochs"], 20);
  const auto best = static_cast<size_t>(found["best_epoch"].get<int>() - 1);
  EXPECT_EQ(result->tests.at(best).auc, found["test_auc"]);
  EXPECT_LT(result->final_train_log_loss, result->tests.front().log_loss) << "nothing was learnt";
}

TEST_F(CentralizedBaselineTest, JoinsTheExamplesThatBothHold) {
  const absl::StatusOr<JoinedData> data = Join();
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->labels.size(), 300u);
  EXPECT_EQ(data->label_features->rows(), 300);
  EXPECT_EQ(data->nonlabel_features->rows(), 300);
  EXPECT_EQ(data->split.train.size() + data->split.test.size(), 300u);
  EXPECT_GT(data->split.test.size(), 30u);
  // Each party draws features of its own that tell the label: they only agree where the rows belong together.
  double agree = 0;
  const absl::StatusOr<CentralizedBaselineResult> result = Train();
  ASSERT_TRUE(result.ok()) << result.status();
  for (const Evaluation& test : result->tests) {
    agree = std::max(agree, test.auc);
  }
  EXPECT_GT(agree, 0.7);
}

TEST_F(CentralizedBaselineTest, RefusesPartiesWithoutCommonExamples) {
  for (std::string& id : run_.nonlabel_data.ids) {
    id += "-other";
  }
  const absl::Status status = Train().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("common"));
}

TEST_F(CentralizedBaselineTest, RefusesALabelPartyWithoutLabels) {
  run_.label_data.labels.clear();
  const absl::Status status = Train().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("labels"));
}

TEST_F(CentralizedBaselineTest, RefusesOtherTasksThanTwoClasses) {
  run_.label_data.task = {Task::Kind::kMultiClass, 3};
  absl::Status status = Train().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("expected labels of two classes"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("found several"));
  run_.label_data.task = {Task::Kind::kRegression, 0};
  run_.label_data.targets.assign(run_.label_data.labels.begin(), run_.label_data.labels.end());
  run_.label_data.labels.clear();
  status = Train().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("found numbers"));
}

TEST_F(CentralizedBaselineTest, RefusesAModelThatDoesNotFit) {
  run_.nonlabel_config.mutable_model()->mutable_layers()->rbegin()->set_units(9);
  EXPECT_THAT(std::string(Train().status().message()), HasSubstr("cut width"));
}

TEST_F(CentralizedBaselineTest, StopsEarlyWhereTheLabelPartyWould) {
  run_.agreement.set_epochs(20);
  run_.label_config.mutable_early_stopping()->set_patience(2);
  run_.label_config.mutable_early_stopping()->set_min_delta(0.99);  // Nothing betters the first epoch by that much.
  const absl::StatusOr<CentralizedBaselineResult> result = Train();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->epochs, 3);
  EXPECT_EQ(result->tests.size(), 3u);
}

TEST_F(CentralizedBaselineTest, StopsBetweenBatches) {
  const absl::StatusOr<JoinedData> data = Join();
  ASSERT_TRUE(data.ok()) << data.status();
  int asked = 0;
  EXPECT_TRUE(absl::IsCancelled(TrainCentralizedBaseline(Config(), *data, [&] { return ++asked == 3; }).status()));
  EXPECT_EQ(asked, 3);
}

TEST_F(CentralizedBaselineTest, WithoutTestExamplesTheMetricsAreNull) {
  run_.agreement.set_test_fraction(0);
  const absl::StatusOr<CentralizedBaselineResult> result = Train();
  ASSERT_TRUE(result.ok()) << result.status();
  const auto json = nlohmann::json::parse(CentralizedBaselineResultJson(*result, 2));
  EXPECT_TRUE(json["test_auc"].is_null());
  EXPECT_TRUE(json["test_log_loss"].is_null());
  EXPECT_TRUE(json["best_epoch"].is_null());
  EXPECT_TRUE(json["examples_per_second"].is_number());
  EXPECT_EQ(json["epochs"], 2);
  EXPECT_EQ(json["threads"], 2);
}

TEST_F(CentralizedBaselineTest, NamesTheConfigurationThatIsNotThere) {
  const absl::Status status = LoadCentralizedBaselineConfig(run_.files.File("no.textproto"), "", "").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no.textproto"));
}

}  // namespace
}  // namespace splitveil::testing
