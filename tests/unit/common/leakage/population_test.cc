#include "common/leakage/population.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <initializer_list>
#include <random>
#include <vector>

#include "common/matrix/matrix.h"

namespace splitveil {
namespace {

Matrix Rows(int64_t cols, std::initializer_list<float> values) {
  Matrix matrix(static_cast<int64_t>(values.size()) / cols, cols);
  std::copy(values.begin(), values.end(), matrix.data());
  return matrix;
}

struct Batch {
  Matrix clean, released;
  std::vector<uint8_t> labels;
};

Batch Draw(int64_t rows, int64_t cols) {
  std::mt19937_64 random(3);  // NOLINT(cert-msc51-cpp): a fixed seed on purpose.
  std::normal_distribution<float> normal;
  Batch batch{Matrix(rows, cols), Matrix(rows, cols), std::vector<uint8_t>(rows)};
  for (int64_t j = 0; j < rows; ++j) {
    batch.labels[j] = j % 3 == 0;
    for (int64_t k = 0; k < cols; ++k) {
      batch.clean.row(j)[k] = normal(random) + (batch.labels[j] == 1 ? 0.5f * static_cast<float>(k) : 1);
      batch.released.row(j)[k] = batch.clean.row(j)[k] + 2 * normal(random);
    }
  }
  return batch;
}

TEST(EstimatePopulationTest, TakesDirectionFromTheCleanAndMomentsFromTheReleased) {
  // Clean class means (0, 0) and (3, 4); released: the negatives moved by (1, 0) and (-1, 0), the positives not.
  const Matrix clean = Rows(2, {0, 0, 0, 0, 3, 4, 3, 4});
  const Matrix released = Rows(2, {1, 0, -1, 0, 3, 4, 3, 4});
  const auto population = EstimatePopulation(clean, released, std::vector<uint8_t>{0, 0, 1, 1});
  ASSERT_TRUE(population.ok()) << population.status();
  EXPECT_NEAR(population->direction[0], 0.6, 1e-7);
  EXPECT_NEAR(population->direction[1], 0.8, 1e-7);
  EXPECT_EQ(population->origin, (std::vector<float>{0, 0}));
  EXPECT_NEAR(population->measured_negative.mean, 0, 1e-7);
  EXPECT_NEAR(population->measured_negative.along, 0.72, 1e-6);   // +-0.6, two rows, one degree of freedom.
  EXPECT_NEAR(population->measured_negative.across, 0.64, 1e-6);  // 1 - 0.36 for both.
  EXPECT_NEAR(population->measured_positive.mean, 5, 1e-6);
  EXPECT_NEAR(population->measured_positive.along, 0, 1e-6);
  EXPECT_NEAR(population->measured_positive.across, 0, 1e-6);
}

TEST(EstimatePopulationTest, OnePositiveBorrowsTheSpreadOfTheNegatives) {
  const Matrix clean = Rows(1, {0, 0, 2});
  const Matrix released = Rows(1, {-1, 1, 5});
  const auto population = EstimatePopulation(clean, released, std::vector<uint8_t>{0, 0, 1});
  EXPECT_NEAR(population->measured_negative.along, 2, 1e-6);
  EXPECT_NEAR(population->measured_positive.along, 2, 1e-6);
}

TEST(EstimatePopulationTest, ModelSpreadsACleanClassAlikeInEveryDirection) {
  // Negatives lie +-1 along (0, 1) about (0, 0), positives at (2, 0): the clean variance of a component is 1/2 and 0.
  // Noise: +-3 on the line of (1, 0) for the negatives, +-1 across it for the positives.
  const Matrix clean = Rows(2, {0, 1, 0, -1, 2, 0, 2, 0});
  const Matrix released = Rows(2, {3, 1, -3, -1, 2, 1, 2, -1});
  const auto population = EstimatePopulation(clean, released, std::vector<uint8_t>{0, 0, 1, 1});
  ASSERT_TRUE(population.ok()) << population.status();
  EXPECT_NEAR(population->negative.along, 9.5, 1e-6);
  EXPECT_NEAR(population->negative.across, 0.5, 1e-6);
  EXPECT_NEAR(population->positive.along, 0, 1e-6);
  EXPECT_NEAR(population->positive.across, 1, 1e-6);
  EXPECT_NEAR(population->positive.mean, 2, 1e-6);
  EXPECT_NEAR(population->measured_negative.across, 1, 1e-6);  // What is really there.
}

TEST(EstimatePopulationTest, RefusesWhatHasNoDirection) {
  const Matrix same = Rows(2, {1, 2, 1, 2});
  const Matrix other = Rows(2, {1, 2, 3, 4});
  const auto code = [](const Matrix& clean, const Matrix& released, std::vector<uint8_t> labels) {
    return EstimatePopulation(clean, released, labels).status().code();
  };
  EXPECT_EQ(code(same, same, {0, 1}), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(code(other, other, {0, 0}), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(code(other, other, {1, 1}), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(code(Matrix(), Matrix(), {}), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(code(Rows(2, {1, 2, NAN, 4}), other, {0, 1}), absl::StatusCode::kFailedPrecondition);
}

TEST(EstimatePopulationTest, RefusesShapesAndLabelsThatDoNotFit) {
  const Matrix two = Rows(2, {1, 2, 3, 4});
  const auto code = [&](const Matrix& released, std::vector<uint8_t> labels) {
    return EstimatePopulation(two, released, labels).status().code();
  };
  EXPECT_EQ(code(Rows(2, {1, 2}), {0, 1}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(Rows(1, {1, 2}), {0, 1}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(two, {0, 1, 1}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(two, {0, 2}), absl::StatusCode::kInvalidArgument);
}

// The density of N(mean, covariance) with covariance = across I + (along - across) w w', inverted as a matrix by the
// Sherman-Morrison formula rather than by axes.
double LogDensity(absl::Span<const float> x, const Population& p, const Population::Class& c) {
  const double d = static_cast<double>(x.size());
  double squared = 0;
  double on_line = 0;
  for (size_t k = 0; k < x.size(); ++k) {
    const double from_mean = x[k] - (p.origin[k] + c.mean * p.direction[k]);
    squared += from_mean * from_mean;
    on_line += from_mean * p.direction[k];
  }
  const double ratio = (c.along - c.across) / c.across;
  const double quadratic = (squared - ratio / (1 + ratio) * on_line * on_line) / c.across;
  return -0.5 * (quadratic + d * std::log(c.across) + std::log(1 + ratio));
}

TEST(LikelihoodRatioScoresTest, IsTheDifferenceOfTheLogDensities) {
  const Batch batch = Draw(60, 5);
  const auto population = EstimatePopulation(batch.clean, batch.released, batch.labels);
  const std::vector<float> modelled = LikelihoodRatioScores(batch.released, *population);
  const std::vector<float> measured = LikelihoodRatioScores(batch.released, *population, ClassSpread::kMeasured);
  for (int64_t j = 0; j < 60; ++j) {
    const auto row = static_cast<const Matrix&>(batch.released).row(j);
    EXPECT_NEAR(modelled[j],
                LogDensity(row, *population, population->positive) - LogDensity(row, *population, population->negative),
                1e-4);
    EXPECT_NEAR(measured[j],
                LogDensity(row, *population, population->measured_positive) -
                    LogDensity(row, *population, population->measured_negative),
                1e-4);
  }
}

TEST(LikelihoodRatioScoresTest, IsFiniteForClassesWithoutSpread) {
  const Matrix clean = Rows(2, {0, 0, 0, 0, 3, 4, 3, 4});
  const std::vector<uint8_t> labels = {0, 0, 1, 1};
  const auto population = EstimatePopulation(clean, clean, labels);
  for (const Matrix& rows : {clean, Rows(2, {3e38f, 3e38f, -3e38f, 3e38f})}) {
    for (float score : LikelihoodRatioScores(rows, *population)) {
      EXPECT_TRUE(std::isfinite(score));
    }
  }
  const std::vector<float> scores = LikelihoodRatioScores(clean, *population);
  EXPECT_GT(scores[2], scores[0]);
}

TEST(LikelihoodRatioScoresTest, IsFiniteWhereOnlyOneClassHasSpread) {
  const Matrix clean = Rows(1, {0, 0, 1, 1});
  const Matrix released = Rows(1, {-1, 1, 1, 1});
  const auto population = EstimatePopulation(clean, released, std::vector<uint8_t>{0, 0, 1, 1});
  for (float score : LikelihoodRatioScores(released, *population)) {
    EXPECT_TRUE(std::isfinite(score));
  }
}

TEST(LikelihoodRatioScoresTest, NoRowsGiveNoScores) {
  const Batch batch = Draw(9, 2);
  const auto population = EstimatePopulation(batch.clean, batch.released, batch.labels);
  EXPECT_TRUE(LikelihoodRatioScores(Matrix(0, 2), *population).empty());
}

TEST(DirectionScoresTest, AreDistancesOnTheLine) {
  Population population;
  population.direction = {0.6f, 0.8f};
  population.origin = {1, 1};
  const std::vector<float> scores = DirectionScores(Rows(2, {1, 1, 4, 5, 1.8f, 0.4f}), population);
  EXPECT_NEAR(scores[0], 0, 1e-6);
  EXPECT_NEAR(scores[1], 5, 1e-6);
  EXPECT_NEAR(scores[2], 0, 1e-6);
}

}  // namespace
}  // namespace splitveil
