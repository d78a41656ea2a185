#include "common/evaluation/evaluation.h"

#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <limits>
#include <vector>

#include "common/matrix/matrix.h"

namespace splitveil {
namespace {

using Logits = std::vector<float>;
using Labels = std::vector<uint8_t>;

float LogitOf(double probability) { return static_cast<float>(std::log(probability / (1 - probability))); }

TEST(LogLossTest, IsTheMeanNegativeLogProbabilityOfTheTrueLabel) {
  EXPECT_NEAR(*LogLoss(Logits{LogitOf(0.8), LogitOf(0.3)}, Labels{1, 0}), -(std::log(0.8) + std::log(0.7)) / 2, 1e-7);
}

TEST(LogLossTest, IsFiniteAndExactForTheLargestLogits) {
  EXPECT_DOUBLE_EQ(*LogLoss(Logits{1000, -1000}, Labels{0, 1}), 1000);
  EXPECT_EQ(*LogLoss(Logits{1000, -1000}, Labels{1, 0}), 0);
}

TEST(AccuracyTest, CountsPositiveLogitsAsPositive) {
  EXPECT_EQ(*Accuracy(Logits{1, -1, 1, 0}, Labels{1, 0, 0, 0}), 0.75);
}

TEST(CalibrationTest, IsZeroForPerfectlyCalibratedBins) {
  Logits logits;
  Labels labels;
  for (int i = 0; i < 100; ++i) {
    logits.push_back(i < 50 ? LogitOf(0.2) : LogitOf(0.6));
    labels.push_back(i % 50 < (i < 50 ? 10 : 30) ? 1 : 0);
  }
  EXPECT_NEAR(*AdaptiveCalibrationError(logits, labels, 2), 0, 1e-7);
}

TEST(CalibrationTest, IsTheMeanGapOverBinsOfEqualMass) {
  // Two bins of two: |0.5 - 0.15| and |1 - 0.75|.
  const Logits logits{LogitOf(0.8), LogitOf(0.1), LogitOf(0.7), LogitOf(0.2)};
  EXPECT_NEAR(*AdaptiveCalibrationError(logits, Labels{1, 0, 1, 1}, 2), (0.35 + 0.25) / 2, 1e-7);
}

TEST(CalibrationTest, DoesNotDependOnTheOrderOfTiedRows) {
  const Logits logits(30, LogitOf(0.5));
  Labels sorted(30);
  Labels mixed(30);
  for (int i = 0; i < 30; ++i) {
    sorted[i] = i < 15 ? 0 : 1;
    mixed[i] = i % 2;
  }
  EXPECT_NEAR(*AdaptiveCalibrationError(logits, sorted), 0, 1e-12);
  EXPECT_EQ(*AdaptiveCalibrationError(logits, sorted), *AdaptiveCalibrationError(logits, mixed));
}

TEST(CalibrationTest, TakesAsManyBinsAsRowsWhereThereAreFewer) {
  EXPECT_NEAR(*AdaptiveCalibrationError(Logits{LogitOf(0.25), LogitOf(0.75)}, Labels{0, 1}), 0.25, 1e-7);
}

TEST(CalibrationTest, FailsWithoutBins) {
  EXPECT_EQ(AdaptiveCalibrationError(Logits{0}, Labels{0}, 0).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(EvaluateTest, GathersTheFourFigures) {
  const Logits logits{2, -1, 0.5f, -3};
  const Labels labels{1, 0, 0, 1};
  const Evaluation evaluation = *Evaluate(logits, labels);
  EXPECT_EQ(evaluation.log_loss, *LogLoss(logits, labels));
  EXPECT_EQ(evaluation.auc, 0.5);
  EXPECT_EQ(evaluation.accuracy, 0.5);
  EXPECT_EQ(evaluation.calibration_error, *AdaptiveCalibrationError(logits, labels));
  EXPECT_EQ(evaluation.examples, 4);
  EXPECT_TRUE(std::isnan(evaluation.rmse));
  EXPECT_TRUE(std::isnan(evaluation.r_squared));
}

TEST(EvaluateTest, HasNoAucWhereOneClassIsAbsent) { EXPECT_TRUE(std::isnan(Evaluate(Logits{1}, Labels{1})->auc)); }

TEST(EvaluateTest, FailsForNoRows) { EXPECT_EQ(Evaluate({}, {}).status().code(), absl::StatusCode::kInvalidArgument); }

TEST(EvaluateTest, FailsForDifferentLengths) {
  EXPECT_EQ(Evaluate(Logits{1, 2}, Labels{1}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(EvaluateTest, FailsForALogitThatIsNotFinite) {
  EXPECT_EQ(Evaluate(Logits{std::nanf("")}, Labels{1}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(LogLoss(Logits{std::numeric_limits<float>::infinity()}, Labels{1}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(EvaluateTest, FailsForALabelThatIsNeitherZeroNorOne) {
  EXPECT_EQ(Accuracy(Logits{1}, Labels{2}).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace splitveil
