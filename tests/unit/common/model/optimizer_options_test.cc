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
  optimizer.mutable_adam()->set_beta1(1);
  ExpectRefused(optimizer, "optimizer.adam.beta1");
  optimizer = MakeAdam();
  optimizer.mutable_adam()->set_beta2(-0.1);
  ExpectRefused(optimizer, "optimizer.adam.beta2");
  optimizer = MakeAdam();
  optimizer.mutable_adam()->set_epsilon(0);
  ExpectRefused(optimizer, "optimizer.adam.epsilon");
}

}  // namespace
}  // namespace splitveil
