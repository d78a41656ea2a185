#include "common/model/optimizer_options.h"

#include <gtest/gtest.h>
#include <limits>
#include <string>

#include "tests/unit/common/model/model_fixtures.h"

namespace splitveil {
namespace {

TEST(OptimizerOptionsTest, TakesTheDefaultsOfTheSchema) {
  v1::Optimizer optimizer;
  optimizer.mutable_adam();
  const auto options = ReadOptimizerOptions(optimizer);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->learning_rate, 1e-3);
  EXPECT_EQ(options->beta1, 0.9);
  EXPECT_EQ(options->beta2, 0.999);
  EXPECT_EQ(options->epsilon, 1e-8);
  EXPECT_EQ(options->l2, 0);
}

TEST(OptimizerOptionsTest, ReadsEveryMethod) {
  v1::Optimizer optimizer;
  optimizer.mutable_adamw()->set_weight_decay(0.25);
  EXPECT_EQ(ReadOptimizerOptions(optimizer)->weight_decay, 0.25);
  EXPECT_EQ(ReadOptimizerOptions(optimizer)->moments(), 2);
  optimizer.mutable_sgd();
  EXPECT_EQ(ReadOptimizerOptions(optimizer)->moments(), 0);
  optimizer.mutable_sgd()->set_momentum(0.5);
  EXPECT_EQ(ReadOptimizerOptions(optimizer)->moments(), 1);
  optimizer.mutable_adagrad()->set_initial_accumulator(3);
  EXPECT_EQ(ReadOptimizerOptions(optimizer)->initial_accumulator, 3);
  EXPECT_EQ(ReadOptimizerOptions(optimizer)->moments(), 1);
}

TEST(OptimizerOptionsTest, TheScheduleWarmsUpDecaysAndAnneals) {
  v1::Optimizer optimizer = MakeAdam(8);
  optimizer.mutable_schedule()->set_warmup_steps(4);
  OptimizerOptions options = *ReadOptimizerOptions(optimizer);
  EXPECT_EQ(options.LearningRate(0), 2);
  EXPECT_EQ(options.LearningRate(2), 6);
  EXPECT_EQ(options.LearningRate(3), 8);
  EXPECT_EQ(options.LearningRate(1000), 8);

  optimizer.mutable_schedule()->mutable_decay()->set_steps(10);
  options = *ReadOptimizerOptions(optimizer);
  EXPECT_EQ(options.LearningRate(1), 4);
  EXPECT_EQ(options.LearningRate(9), 8);
  EXPECT_EQ(options.LearningRate(10), 4);
  EXPECT_EQ(options.LearningRate(39), 1);

  optimizer.mutable_schedule()->set_warmup_steps(0);
  optimizer.mutable_schedule()->mutable_cosine()->set_steps(6);
  optimizer.mutable_schedule()->mutable_cosine()->set_floor(0.5);
  options = *ReadOptimizerOptions(optimizer);
  EXPECT_EQ(options.LearningRate(0), 8);
  EXPECT_NEAR(options.LearningRate(2), 4 + 4 * 0.75, 1e-12);  // cos 60 degrees = 1/2.
  EXPECT_NEAR(options.LearningRate(3), 6, 1e-12);
  EXPECT_EQ(options.LearningRate(6), 4);
  EXPECT_EQ(options.LearningRate(600), 4);
}

TEST(OptimizerOptionsTest, TheAverageTakesLessOfTheParametersTheLongerItLasts) {
  v1::Optimizer optimizer = MakeAdam();
  EXPECT_FALSE(ReadOptimizerOptions(optimizer)->has_average());
  optimizer.set_average_decay(0.9);
  const OptimizerOptions options = *ReadOptimizerOptions(optimizer);
  EXPECT_TRUE(options.has_average());
  EXPECT_EQ(options.moments(), 2);
  EXPECT_NEAR(options.AverageRate(0), 9 / 10.0, 1e-12);  // 1 - (1 + 0) / (10 + 0)
  EXPECT_NEAR(options.AverageRate(5), 9 / 15.0, 1e-12);
  EXPECT_NEAR(options.AverageRate(79), 9 / 89.0, 1e-12);
  EXPECT_NEAR(options.AverageRate(81), 0.1, 1e-12);
  EXPECT_NEAR(options.AverageRate(1000000), 0.1, 1e-12);
}

void ExpectRefused(const v1::Optimizer& optimizer, const std::string& field) {
  const auto options = ReadOptimizerOptions(optimizer);
  EXPECT_EQ(options.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(options.status().message().find(field), absl::string_view::npos) << options.status();
}

TEST(OptimizerOptionsTest, RefusesAMissingMethod) { ExpectRefused(v1::Optimizer(), "optimizer.method"); }

TEST(OptimizerOptionsTest, RefusesNumbersOutOfRange) {
  ExpectRefused(MakeAdam(0), "optimizer.learning_rate");
  ExpectRefused(MakeAdam(std::numeric_limits<double>::quiet_NaN()), "optimizer.learning_rate");
  v1::Optimizer optimizer = MakeAdam();
  optimizer.set_l2(-1e-9);
  ExpectRefused(optimizer, "optimizer.l2");
  optimizer = MakeAdam();
  optimizer.set_average_decay(1);
  ExpectRefused(optimizer, "optimizer.average_decay");
  optimizer = MakeAdam();
  optimizer.mutable_adam()->set_beta1(1);
  ExpectRefused(optimizer, "optimizer.adam.beta1");
  optimizer = MakeAdam();
  optimizer.mutable_adam()->set_beta2(-0.1);
  ExpectRefused(optimizer, "optimizer.adam.beta2");
  optimizer = MakeAdam();
  optimizer.mutable_adam()->set_epsilon(0);
  ExpectRefused(optimizer, "optimizer.adam.epsilon");
  optimizer = MakeAdam();
  optimizer.mutable_schedule()->mutable_decay();
  ExpectRefused(optimizer, "optimizer.schedule.decay.steps: expected a value");
}

TEST(OptimizerOptionsTest, RefusesNesterovWithoutMomentum) {
  v1::Optimizer optimizer;
  optimizer.mutable_sgd()->set_nesterov(true);
  ExpectRefused(optimizer, "optimizer.sgd.nesterov: expected a momentum above 0 with it, found 0");
}

}  // namespace
}  // namespace splitveil
