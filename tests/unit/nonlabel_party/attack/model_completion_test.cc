#include <cmath>
#include <gtest/gtest.h>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/leakage/summary.h"
#include "nonlabel_party/attack/attack_module.h"
#include "tests/testing/small_table.h"
#include "tests/unit/common/model/model_fixtures.h"

namespace splitveil {
namespace {

constexpr uint32_t kExamples = 600;
constexpr uint32_t kKnown = 40;

// The label is the sign of a product of two of six features: no linear function of them tells it.
class ModelCompletionTest : public ::testing::Test {
 protected:
  ModelCompletionTest() : features_(Draw()) {
    options_.bottom.features = features_.shape();
    *options_.bottom.spec.add_layers() = MakeLayer("first", 16, v1::TANH);
    *options_.bottom.spec.add_layers() = MakeLayer("second", 4, v1::LINEAR);
    options_.bottom.optimizer = MakeAdam(1e-2);
    options_.bottom.cut_width = 4;
    options_.bottom.seed = 3;
    options_.features = &features_;
    for (uint32_t position = 0; position < kKnown; ++position) {
      options_.positions.push_back(position);
      options_.labels.push_back(labels_[position]);
    }
  }

  FeatureTable Draw() {
    std::mt19937_64 random(8);  // NOLINT(cert-msc51-cpp): a fixed seed on purpose.
    std::normal_distribution<float> normal;
    splitveil::testing::SmallTable table;
    for (int64_t j = 0; j < kExamples; ++j) {
      std::vector<float> features(6);
      for (float& feature : features) {
        feature = normal(random);
      }
      labels_.push_back(features[0] * features[1] > 0 ? 1 : 0);
      table.ids.push_back(std::to_string(j));
      table.numeric.push_back(std::move(features));
    }
    std::vector<uint32_t> rows(kExamples);
    std::iota(rows.begin(), rows.end(), 0);
    return {table.Store(), rows};
  }

  // A bottom model that training has taught the labels: completed with all of them.
  NamedParameters Trained() {
    Options all = options_;
    all.positions.resize(kExamples);
    std::iota(all.positions.begin(), all.positions.end(), 0);
    all.labels = labels_;
    const auto model = ModelCompletion::Create(all, nullptr);
    EXPECT_TRUE(model.ok()) << model.status();
    EXPECT_TRUE((*model)->Train((*model)->Steps(60)).ok());
    return (*model)->bottom().Parameters();
  }

  // AUC over the examples that are not known.
  double AucAfter(int passes, const NamedParameters* trained) {
    const auto model = ModelCompletion::Create(options_, trained);
    EXPECT_TRUE(model.ok()) << model.status();
    EXPECT_TRUE((*model)->Train((*model)->Steps(passes)).ok());
    std::vector<uint32_t> others(kExamples - kKnown);
    std::iota(others.begin(), others.end(), kKnown);
    const auto scores = (*model)->Score(others);
    EXPECT_TRUE(scores.ok()) << scores.status();
    return *LeakAuc(*scores, absl::MakeConstSpan(labels_).subspan(kKnown));
  }

  using Options = ModelCompletion::Options;
  std::vector<uint8_t> labels_;
  FeatureTable features_;
  Options options_;
};

TEST_F(ModelCompletionTest, ATrainedBottomModelGivesItsLabelsAway) {
  const NamedParameters trained = Trained();
  const double completion = AucAfter(kCompletionPasses, &trained);
  const double features_only = AucAfter(kFeaturesOnlyPasses, nullptr);
  EXPECT_GT(completion, 0.9);
  EXPECT_LT(features_only, completion - 0.1);
}

TEST_F(ModelCompletionTest, ConvergesOnWhatItKnows) {
  const auto model = ModelCompletion::Create(options_, nullptr);
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_TRUE((*model)->Train((*model)->Steps(kFeaturesOnlyPasses)).ok());
  const auto scores = (*model)->Score(options_.positions);
  EXPECT_GT(*LeakAuc(*scores, options_.labels), 0.99);
}

TEST_F(ModelCompletionTest, AveragesStartFromTheGivenParametersAndTheKnownExamples) {
  const NamedParameters trained = Trained();
  const double at_start = AucAfter(0, &trained);
  options_.bottom.optimizer.set_average_decay(0.9);
  EXPECT_EQ(AucAfter(0, &trained), at_start);
  EXPECT_GT(at_start, 0.7);
}

TEST_F(ModelCompletionTest, StartsFromTheGivenParametersAndLeavesThemAlone) {
  const NamedParameters trained = Trained();
  const NamedParameters before = trained;
  const auto model = ModelCompletion::Create(options_, &trained);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->bottom().Parameters(), trained);
  ASSERT_TRUE((*model)->Train(1).ok());
  EXPECT_NE((*model)->bottom().Parameters(), trained);
  EXPECT_EQ(trained, before);
}

TEST_F(ModelCompletionTest, TheSameSeedGivesTheSameScores) { EXPECT_EQ(AucAfter(3, nullptr), AucAfter(3, nullptr)); }

TEST_F(ModelCompletionTest, StepsAreThoseOfThePassesUpToTheLimit) {
  const auto steps = [this](size_t known, int passes) {
    options_.positions.assign(known, 0);
    options_.labels.assign(known, 0);
    const auto model = ModelCompletion::Create(options_, nullptr);
    EXPECT_TRUE(model.ok()) << model.status();
    return (*model)->Steps(passes);
  };
  EXPECT_EQ(steps(1, 5), 5);
  EXPECT_EQ(steps(32, 5), 5);
  EXPECT_EQ(steps(33, 5), 10);  // Batches of 32.
  EXPECT_EQ(steps(1280, 50), 2000);
  EXPECT_EQ(steps(1281, 50), 2000);
  EXPECT_EQ(steps(64001, 1), 2000);  // Not even one pass.
}

TEST_F(ModelCompletionTest, StepsInPartsAreTheSameSteps) {
  const auto at_once = ModelCompletion::Create(options_, nullptr);
  const auto in_parts = ModelCompletion::Create(options_, nullptr);
  ASSERT_TRUE(at_once.ok() && in_parts.ok());
  ASSERT_TRUE((*at_once)->Train(7).ok());  // 3.5 passes.
  for (int steps : {1, 0, 4, 2}) {
    ASSERT_TRUE((*in_parts)->Train(steps).ok());
  }
  EXPECT_EQ((*in_parts)->bottom().Parameters(), (*at_once)->bottom().Parameters());
  ASSERT_TRUE((*in_parts)->Train(1).ok());
  EXPECT_NE((*in_parts)->bottom().Parameters(), (*at_once)->bottom().Parameters());
}

TEST_F(ModelCompletionTest, OneClassOfLabelsStillGivesFiniteScores) {
  options_.labels.assign(kKnown, 1);
  const auto model = ModelCompletion::Create(options_, nullptr);
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_TRUE((*model)->Train((*model)->Steps(kFeaturesOnlyPasses)).ok());
  const auto scores = (*model)->Score(options_.positions);
  ASSERT_TRUE(scores.ok()) << scores.status();
  for (float score : *scores) {
    EXPECT_TRUE(std::isfinite(score));
  }
}

TEST_F(ModelCompletionTest, RefusesNoExamplesAndMissingLabels) {
  options_.labels.pop_back();
  EXPECT_EQ(ModelCompletion::Create(options_, nullptr).status().code(), absl::StatusCode::kInvalidArgument);
  options_.labels.clear();
  options_.positions.clear();
  EXPECT_EQ(ModelCompletion::Create(options_, nullptr).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ModelCompletionTest, RefusesParametersOfAnotherModel) {
  NamedParameters trained = Trained();
  trained.pop_back();
  EXPECT_EQ(ModelCompletion::Create(options_, &trained).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ModelCompletionTest, RefusesAModelThatDoesNotFitTheCut) {
  options_.bottom.cut_width = 5;
  EXPECT_EQ(ModelCompletion::Create(options_, nullptr).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace splitveil
