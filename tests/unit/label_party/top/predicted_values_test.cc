#include "label_party/top/predicted_values.h"

#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>

#include "tests/testing/small_table.h"

namespace splitveil::testing {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;

std::shared_ptr<const Dataset> DataOf(Task task) {
  SmallTable table;
  table.ids = {"a", "b"};
  table.task = task;
  if (task.kind == Task::Kind::kRegression) {
    table.targets = {0.25, 0.5};
  } else {
    table.labels = {0, 1};
  }
  return table.Store();
}

TEST(PredictedValuesTest, OneNumberOfEachTaskIsWatched) {
  const auto binary = DataOf(Task()), classes = DataOf({Task::Kind::kMultiClass, 3}),
             numbers = DataOf({Task::Kind::kRegression, 0});
  const std::vector<double> probability = PredictedValues(*binary, {1.0F});
  EXPECT_THAT(probability, ElementsAre(DoubleNear(1 / (1 + std::exp(-1)), 1e-12)));
  EXPECT_FLOAT_EQ(WatchedScore(*binary, probability), static_cast<float>(probability[0]));
  const std::vector<double> of_classes = PredictedValues(*classes, {0.0F, 3.0F, 1.0F});
  const double sum = 1 + std::exp(3) + std::exp(1);
  EXPECT_THAT(of_classes, ElementsAre(DoubleNear(1 / sum, 1e-12), DoubleNear(std::exp(3) / sum, 1e-12),
                                      DoubleNear(std::exp(1) / sum, 1e-12)));
  EXPECT_EQ(WatchedScore(*classes, of_classes), 1);
  EXPECT_EQ(WatchedScore(*numbers, PredictedValues(*numbers, {0.75F})), 0.75F);  // Targets lie between 0 and 1.
}

}  // namespace
}  // namespace splitveil::testing
