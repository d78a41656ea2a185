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
  EXPECT_NEAR(Evaluate(Logits{LogitOf(0.8), LogitOf(0.3)}, Labels{1, 0})->log_loss,
              -(std::log(0.8) + std::log(0.7)) / 2, 1e-7);
}

TEST(LogLossTest, IsFiniteAndExactForTheLargestLogits) {
  EXPECT_DOUBLE_EQ(Evaluate(Logits{1000, -1000}, Labels{0, 1})->log_loss, 1000);
  EXPECT_EQ(Evaluate(Logits{1000, -1000}, Labels{1, 0})->log_loss, 0);
}

TEST(AccuracyTest, CountsPositiveLogitsAsPositive) {
  EXPECT_EQ(Evaluate(Logits{1, -1, 1, 0}, Labels{1, 0, 0, 0})->accuracy, 0.75);
}

TEST(CalibrationTest, IsZeroForPerfectlyCalibratedBins) {
  Logits logits;
  Labels labels;
  for (int i = 0; i < 150; ++i) {
    logits.push_back(i < 70 ? LogitOf(0.2) : LogitOf(0.6));
    labels.push_back(i % 10 < (i < 70 ? 2 : 6) ? 1 : 0);
  }
  EXPECT_NEAR(Evaluate(logits, labels)->calibration_error, 0, 1e-7);
}

TEST(CalibrationTest, IsTheMeanGapOverFifteenBinsOfEqualMass) {
  Logits logits(30);
  Labels labels(30);
  double gaps = 0;
  for (size_t i = 0; i < 30; ++i) {
    // In no order of size: the figure sorts them. 7 and 30 have no common divisor.
    const size_t rank = i * 7 % 30;
    logits[i] = LogitOf((static_cast<double>(rank) + 1) / 32);
    labels[i] = rank % 3 == 0 ? 1 : 0;
  }
  for (int rank = 0; rank < 30; rank += 2) {
    const double positives = (rank % 3 == 0 ? 1 : 0) + ((rank + 1) % 3 == 0 ? 1 : 0);
    gaps += std::abs((rank + 1.5) / 32 - positives / 2);
  }
  EXPECT_NEAR(Evaluate(logits, labels)->calibration_error, gaps / 15, 1e-7);
}

TEST(CalibrationTest, DoesNotDependOnTheOrderOfTiedRows) {
  const Logits logits(30, LogitOf(0.5));
  Labels sorted(30);
  Labels mixed(30);
  for (int i = 0; i < 30; ++i) {
    sorted[i] = i < 15 ? 0 : 1;
    mixed[i] = i % 2;
  }
  EXPECT_NEAR(Evaluate(logits, sorted)->calibration_error, 0, 1e-12);
  EXPECT_EQ(Evaluate(logits, sorted)->calibration_error, Evaluate(logits, mixed)->calibration_error);
}

TEST(CalibrationTest, TakesAsManyBinsAsRowsIfThereAreFewer) {
  EXPECT_NEAR(Evaluate(Logits{LogitOf(0.25), LogitOf(0.65)}, Labels{0, 1})->calibration_error, (0.25 + 0.35) / 2, 1e-7);
}

TEST(EvaluateTest, GathersTheFourFigures) {
  const Evaluation evaluation = *Evaluate(Logits{2, -1, 0.5f, -3}, Labels{1, 0, 0, 1});
  EXPECT_NEAR(
      evaluation.log_loss,
      (std::log1p(std::exp(-2)) + std::log1p(std::exp(-1)) + std::log1p(std::exp(0.5)) + 3 + std::log1p(std::exp(-3))) /
          4,
      1e-12);
  EXPECT_EQ(evaluation.auc, 0.5);
  EXPECT_EQ(evaluation.accuracy, 0.5);
  EXPECT_TRUE(std::isfinite(evaluation.calibration_error));
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
  EXPECT_EQ(Evaluate(Logits{std::numeric_limits<float>::infinity()}, Labels{1}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(EvaluateTest, FailsForALabelThatIsNeitherZeroNorOne) {
  EXPECT_EQ(Evaluate(Logits{1}, Labels{2}).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace splitveil
