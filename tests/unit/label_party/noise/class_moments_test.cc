#include "label_party/noise/class_moments.h"

#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <limits>
#include <vector>

#include "common/leakage/linear_algebra.h"
#include "tests/unit/label_party/protection/protection_fixture.h"

namespace splitveil {
namespace {

Matrix FromRows(const std::vector<std::vector<float>>& rows) {
  Matrix matrix(static_cast<int64_t>(rows.size()), static_cast<int64_t>(rows.front().size()));
  for (int64_t i = 0; i < matrix.rows(); ++i) {
    std::copy(rows[i].begin(), rows[i].end(), matrix.row(i).begin());
  }
  return matrix;
}

ClassMoments MomentsOf(const Matrix& gradients, const std::vector<uint8_t>& labels) {
  const auto moments = ComputeClassMoments(gradients, labels);
  EXPECT_TRUE(moments.ok()) << moments.status();
  return moments.value_or(ClassMoments{});
}

TEST(ClassMomentsTest, AreTheMaximumLikelihoodEstimates) {
  const ClassMoments m = MomentsOf(FromRows({{1, 0}, {3, 4}, {-1, 2}, {0, 0}, {0, 6}}), {0, 1, 0, 0, 1});
  EXPECT_EQ(m.negatives, 3);
  EXPECT_EQ(m.positives, 2);
  EXPECT_DOUBLE_EQ(m.p, 0.4);
  // Means (0, 2/3) and (1.5, 5).
  EXPECT_DOUBLE_EQ(m.mean_difference[0], 1.5);
  EXPECT_DOUBLE_EQ(m.mean_difference[1], 5 - 2.0 / 3);
  EXPECT_DOUBLE_EQ(m.dg_squared, 1.5 * 1.5 + 13.0 / 3 * 13 / 3);
  EXPECT_DOUBLE_EQ(m.u, (2 + 8.0 / 3) / 6);
  EXPECT_DOUBLE_EQ(m.v, (4.5 + 2) / 4);
  EXPECT_EQ(m.max_squared_norm, 36);
  EXPECT_DOUBLE_EQ(m.mean_squared_norm, (1 + 25 + 5 + 0 + 36) / 5.0);
}

TEST(ClassMomentsTest, TellsTheNormOfEachRowToTheLastBit) {
  std::vector<double> squared_norms = {7};  // Of an earlier batch.
  for (int64_t cols = 1; cols < 20; ++cols) {
    const LabelledBatch batch = MakeLabelledBatch(50, cols);
    ASSERT_TRUE(ComputeClassMoments(batch.gradients, batch.labels, &squared_norms).ok());
    ASSERT_EQ(squared_norms.size(), 50);
    for (int64_t j = 0; j < 50; ++j) {
      // The noise of max_norm is scaled by it: other bits would be other noise where a step is repeated.
      EXPECT_EQ(squared_norms[j], SquaredNorm(batch.gradients.row(j))) << cols << " columns, row " << j;
    }
  }
}

TEST(ClassMomentsTest, AgreeWithTwoPassesForEveryWidth) {
  for (int64_t cols = 1; cols < 20; ++cols) {
    const LabelledBatch batch = MakeLabelledBatch(50, cols);
    const ClassMoments m = MomentsOf(batch.gradients, batch.labels);
    std::vector<double> mean[2] = {std::vector<double>(cols), std::vector<double>(cols)};
    double squares[2] = {};
    const double count[2] = {static_cast<double>(m.negatives), static_cast<double>(m.positives)};
    for (int64_t j = 0; j < 50; ++j) {
      for (int64_t k = 0; k < cols; ++k) {
        mean[batch.labels[j]][k] += batch.gradients.row(j)[k] / count[batch.labels[j]];
      }
    }
    for (int64_t j = 0; j < 50; ++j) {
      for (int64_t k = 0; k < cols; ++k) {
        const double deviation = batch.gradients.row(j)[k] - mean[batch.labels[j]][k];
        squares[batch.labels[j]] += deviation * deviation;
      }
    }
    EXPECT_NEAR(m.u, squares[0] / count[0] / static_cast<double>(cols), 1e-14);
    EXPECT_NEAR(m.v, squares[1] / count[1] / static_cast<double>(cols), 1e-14);
    for (int64_t k = 0; k < cols; ++k) {
      EXPECT_NEAR(m.mean_difference[k], mean[1][k] - mean[0][k], 1e-14);
    }
  }
}

TEST(ClassMomentsTest, HaveVarianceExactlyZeroForEqualRows) {
  const ClassMoments m = MomentsOf(FromRows({{0.1f, 0.7f}, {0.1f, 0.7f}, {0.1f, 0.7f}, {0.3f, 0.2f}}), {0, 0, 0, 1});
  EXPECT_EQ(m.u, 0);
  EXPECT_EQ(m.v, 0);
}

TEST(ClassMomentsTest, KeepTheDigitsOfASmallSpreadFarFromZero) {
  const ClassMoments m = MomentsOf(FromRows({{4096}, {4096.0009765625f}, {0}}), {0, 0, 1});
  EXPECT_DOUBLE_EQ(m.u, 0x1p-22);
}

TEST(ClassMomentsTest, AreInformativeForTwoClassesApart) {
  EXPECT_TRUE(MomentsOf(FromRows({{1}, {2}}), {0, 1}).informative());
}

TEST(ClassMomentsTest, AreNotInformativeForOneClass) {
  const ClassMoments m = MomentsOf(FromRows({{1}, {2}}), {1, 1});
  EXPECT_FALSE(m.informative());
  EXPECT_EQ(m.p, 1);
  EXPECT_EQ(m.dg_squared, 0);
}

TEST(ClassMomentsTest, AreNotInformativeForEqualMeans) {
  EXPECT_FALSE(MomentsOf(FromRows({{1}, {3}, {2}}), {0, 0, 1}).informative());
}

TEST(ClassMomentsTest, AreNotInformativeForMeansCloserThanTheResolutionOfAFloat) {
  EXPECT_FALSE(MomentsOf(FromRows({{1, 1e-9f}, {1, 0}}), {0, 1}).informative());
  EXPECT_TRUE(MomentsOf(FromRows({{0, 1e-9f}, {0, 0}}), {0, 1}).informative());
}

TEST(ClassMomentsTest, FailForAnEmptyBatch) {
  EXPECT_EQ(ComputeClassMoments(Matrix(0, 4), {}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ComputeClassMoments(Matrix(1, 0), std::vector<uint8_t>{1}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(ClassMomentsTest, FailForAnotherNumberOfLabels) {
  EXPECT_EQ(ComputeClassMoments(Matrix(2, 2), std::vector<uint8_t>{1}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(ClassMomentsTest, FailForALabelThatIsNeitherZeroNorOne) {
  EXPECT_EQ(ComputeClassMoments(Matrix(2, 2), std::vector<uint8_t>{1, 2}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(ClassMomentsTest, FailForAGradientThatIsNotFinite) {
  for (float bad : {std::nanf(""), std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()}) {
    for (int64_t k = 0; k < 11; ++k) {
      Matrix gradients(3, 11);
      gradients.row(1)[k] = bad;
      EXPECT_EQ(ComputeClassMoments(gradients, std::vector<uint8_t>{0, 1, 0}).status().code(),
                absl::StatusCode::kInternal);
    }
  }
}

TEST(ClassMomentsTest, TakeTheLargestFloats) {
  const float huge = std::numeric_limits<float>::max();
  const ClassMoments m = MomentsOf(FromRows({{huge, huge}, {-huge, -huge}}), {0, 1});
  EXPECT_TRUE(std::isfinite(m.dg_squared));
}

TEST(RunningMomentsTest, AreNotAvailableBeforeTheFirstInformativeBatch) {
  RunningMoments running;
  EXPECT_FALSE(running.available());
  running.Update(MomentsOf(FromRows({{1}, {2}}), {1, 1}));
  EXPECT_FALSE(running.available());
}

TEST(RunningMomentsTest, AreThoseOfTheOnlyBatch) {
  RunningMoments running;
  const ClassMoments batch = MomentsOf(FromRows({{1, 0}, {2, 1}}), {0, 1});
  running.Update(batch);
  ASSERT_TRUE(running.available());
  EXPECT_EQ(running.Estimate().mean_difference, batch.mean_difference);
  EXPECT_EQ(running.Estimate().dg_squared, batch.dg_squared);
}

TEST(RunningMomentsTest, AverageTheLengthOfTheDifferenceApartFromItsDirection) {
  RunningMoments running;
  running.Update(MomentsOf(FromRows({{0, 0}, {2, 0}}), {0, 1}));
  running.Update(MomentsOf(FromRows({{0, 0}, {0, 2}}), {0, 1}));
  const ClassMoments estimate = running.Estimate();
  EXPECT_DOUBLE_EQ(estimate.dg_squared, 4);
  EXPECT_DOUBLE_EQ(std::hypot(estimate.mean_difference[0], estimate.mean_difference[1]), 2);
}

TEST(RunningMomentsTest, IgnoreABatchThatIsNotInformative) {
  RunningMoments running;
  running.Update(MomentsOf(FromRows({{1, 0}, {2, 1}}), {0, 1}));
  const ClassMoments before = running.Estimate();
  running.Update(MomentsOf(FromRows({{9, 9}, {9, 9}}), {0, 1}));
  EXPECT_EQ(running.Estimate().dg_squared, before.dg_squared);
  EXPECT_EQ(running.max_squared_norm(), before.max_squared_norm);
}

TEST(RunningMomentsTest, ScaleTheFallbackByTheLargestNormKnown) {
  RunningMoments running;
  const ClassMoments zeros = MomentsOf(FromRows({{0}, {0}}), {0, 1});
  EXPECT_EQ(running.FallbackScale(zeros), 1);
  EXPECT_EQ(running.FallbackScale(MomentsOf(FromRows({{3}}), {1})), 9);
  running.Update(MomentsOf(FromRows({{1}, {2}}), {0, 1}));
  EXPECT_EQ(running.FallbackScale(zeros), 4);
}

}  // namespace
}  // namespace splitveil
