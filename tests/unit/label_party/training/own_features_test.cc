#include "label_party/training/own_features.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "common/dataset/feature_table.h"
#include "common/leakage/summary.h"
#include "common/schedule/schedule.h"
#include "label_party/training/training.h"
#include "tests/testing/small_run.h"

namespace splitveil::testing {
namespace {

constexpr uint32_t kExamples = 3000, kTrained = 2000, kTested = 900;  // The last 100: validation.

// One of the label party's numbers is the label times `distance` and a standard normal; nothing else tells of it.
class OwnFeaturesTest : public ::testing::Test {
 protected:
  void Make(double distance) {
    SmallTable& table = run_.label_data;
    std::mt19937_64 random(31);  // NOLINT(cert-msc51-cpp): a fixed seed on purpose.
    std::normal_distribution<double> normal;
    for (size_t i = 0; i < table.ids.size(); ++i) {
      const double told = normal(random) + distance * table.labels[i];
      table.numeric[i] = {static_cast<float>(std::clamp((told + 3) / 7, 0.0, 1.0)), 0.5F};
      table.categories[i] = {1, 1};
    }
    run_.label_config.mutable_party()->mutable_optimizer()->set_learning_rate(0.01);
    const std::shared_ptr<const Dataset> dataset = run_.LabelDataset();
    options_ = TopOptions(run_.agreement, run_.label_config, *dataset);
    std::vector<uint32_t> rows(kExamples), trained(kTrained), test(kExamples - kTrained);
    std::iota(rows.begin(), rows.end(), 0);
    std::iota(trained.begin(), trained.end(), 0);
    std::iota(test.begin(), test.end(), kTrained);
    labels_.assign(table.labels.begin(), table.labels.begin() + kExamples);
    data_.emplace(TrainingData{std::make_unique<FeatureTable>(dataset, rows), Task(), AuditedSide(), nullptr,
                               *Schedule::Create(JointSeed{3}, trained, AgreedSchedule(run_.agreement)), test,
                               kExamples - kTrained - kTested});
  }

  std::optional<std::vector<float>> Predict() { return PredictFromOwnFeatures(options_, *data_, 64, 20); }
  double Auc() {
    const std::vector<float> outputs = *Predict();
    return *LeakAuc(outputs, absl::MakeConstSpan(labels_).subspan(kTrained, kTested));
  }

  SmallRun run_{kExamples};
  TopModelOptions options_;
  std::vector<uint8_t> labels_;
  std::optional<TrainingData> data_;
};

// Two unit Gaussians `distance` apart: Phi(distance / sqrt 2), here within four standard errors of 900 examples.
TEST_F(OwnFeaturesTest, ReachWhatTheyTell) {
  Make(1);
  EXPECT_NEAR(Auc(), 0.760, 0.075);
  Make(2);
  EXPECT_NEAR(Auc(), 0.921, 0.045);
}

TEST_F(OwnFeaturesTest, ReachNothingIfTheyTellNothing) {
  Make(0);
  EXPECT_NEAR(Auc(), 0.5, 0.09);
}

TEST_F(OwnFeaturesTest, AreTriedOnTheTestPartAlone) {
  Make(1);
  const std::vector<uint32_t> tested = TestedPositions(*data_);
  EXPECT_EQ(tested.size(), kTested);
  EXPECT_EQ(tested.front(), kTrained);
  EXPECT_EQ(Predict()->size(), kTested);
  data_->test.clear();
  data_->validation_examples = 0;
  EXPECT_FALSE(Predict().has_value());
}

TEST_F(OwnFeaturesTest, AreNoFigureWithoutAnyOrOfAModelThatCannotBeTrained) {
  Make(1);
  options_.features = {};
  EXPECT_FALSE(Predict().has_value());
  Make(1);
  options_.optimizer.set_learning_rate(1e38);  // Weights overflow within two updates.
  EXPECT_FALSE(Predict().has_value());
}

}  // namespace
}  // namespace splitveil::testing
