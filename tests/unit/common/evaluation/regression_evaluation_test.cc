#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <vector>

#include "common/evaluation/evaluation.h"
#include "common/matrix/matrix.h"

namespace splitveil {
namespace {

using Numbers = std::vector<float>;

TEST(EvaluateRegressionTest, IsTheRootOfTheMeanSquaredErrorAndTheShareExplained) {
  // Errors 0.5, -0.5, 0, 1; the targets' mean is 1, their squares about it 1, 1, 0, 4 less one for each.
  const Evaluation evaluation = *EvaluateRegression(Numbers{0.5F, 1.5F, 1, 2}, Numbers{0, 2, 1, 1});
  EXPECT_NEAR(evaluation.rmse, std::sqrt(1.5 / 4), 1e-12);
  EXPECT_NEAR(evaluation.r_squared, 1 - 1.5 / 2, 1e-12);
  EXPECT_EQ(evaluation.examples, 4);
}

TEST(EvaluateRegressionTest, IsOneForTheTargetsThemselvesAndZeroForTheirMean) {
  const Numbers targets = {0.25F, 0.5F, 0.75F, 0.5F};
  EXPECT_EQ(EvaluateRegression(targets, targets)->rmse, 0);
  EXPECT_EQ(EvaluateRegression(targets, targets)->r_squared, 1);
  EXPECT_NEAR(EvaluateRegression(Numbers(4, 0.5F), targets)->r_squared, 0, 1e-12);
  EXPECT_LT(EvaluateRegression(Numbers(4, 1), targets)->r_squared, 0);
}

TEST(EvaluateRegressionTest, HasNoShareExplainedWhereTheTargetsDoNotVary) {
  for (const size_t rows : {1, 3, 7}) {
    const Evaluation evaluation = *EvaluateRegression(Numbers(rows, 0.35F), Numbers(rows, 0.1F));
    EXPECT_TRUE(std::isnan(evaluation.r_squared)) << rows;
    EXPECT_NEAR(evaluation.rmse, 0.25, 1e-7) << rows;
  }
}

TEST(EvaluateRegressionTest, HasNoOtherFigures) {
  const Evaluation evaluation = *EvaluateRegression(Numbers{0, 1}, Numbers{1, 0});
  EXPECT_TRUE(std::isnan(evaluation.log_loss));
  EXPECT_TRUE(std::isnan(evaluation.auc));
  EXPECT_TRUE(std::isnan(evaluation.accuracy));
  EXPECT_TRUE(std::isnan(evaluation.calibration_error));
}

TEST(EvaluateRegressionTest, FailsForWhatIsNoPrediction) {
  const auto refused = [](const Numbers& predictions, const Numbers& targets) {
    return EvaluateRegression(predictions, targets).status().code() == absl::StatusCode::kInvalidArgument;
  };
  EXPECT_TRUE(refused({}, {}));
  EXPECT_TRUE(refused({1, 2}, {1}));
  EXPECT_TRUE(refused({std::nanf("")}, {1}));
  EXPECT_TRUE(refused({1}, {std::numeric_limits<float>::infinity()}));
}

}  // namespace
}  // namespace splitveil
