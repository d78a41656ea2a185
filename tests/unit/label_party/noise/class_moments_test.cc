#include <algorithm>
#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <vector>

#include "label_party/noise/noise_plan.h"

namespace splitveil {
namespace {

Matrix FromRows(const std::vector<std::vector<float>>& rows) {
  Matrix matrix(static_cast<int64_t>(rows.size()), static_cast<int64_t>(rows.front().size()));
  for (size_t j = 0; j < rows.size(); ++j) {
    std::copy(rows[j].begin(), rows[j].end(), matrix.row(static_cast<int64_t>(j)).data());
  }
  return matrix;
}

struct Batch {
  Matrix directions;
  std::vector<float> probabilities;
  double clip_norm = 0;

  LabelFreeBatch label_free() const { return {directions, probabilities, clip_norm}; }
};

Batch RandomBatch(int64_t rows, int64_t cols, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Batch batch{Matrix(rows, cols), {}};
  for (int64_t j = 0; j < rows; ++j) {
    batch.probabilities.push_back(static_cast<float>(random() % 1000 + 1) / 1002);
    for (float& component : batch.directions.row(j)) {
      component = 0.5F + normal(random);
    }
  }
  return batch;
}

// Two rows by hand: v = 2 and 4 with p = 1/4 and 3/4. Positives, of weights 1/4 and 3/4: -3/2 and -1. Negatives, of
// weights 3/4 and 1/4: 1/2 and 3.
TEST(ExpectedMomentsTest, AreThoseOfRowsThatCountToBothClasses) {
  const Batch batch{FromRows({{2}, {4}}), {0.25F, 0.75F}};
  const ClassMoments m = *ExpectedMoments(batch.label_free());
  EXPECT_EQ(m.p, 0.5);
  const double positive = 0.25 * -1.5 + 0.75 * -1, negative = 0.75 * 0.5 + 0.25 * 3;
  EXPECT_NEAR(m.mean_difference[0], positive - negative, 1e-12);
  EXPECT_NEAR(m.dg_squared, (positive - negative) * (positive - negative), 1e-12);
  EXPECT_NEAR(m.u, 0.75 * 0.25 * 2.5 * 2.5, 1e-12);
  EXPECT_NEAR(m.v, 0.75 * 0.25 * 0.5 * 0.5, 1e-12);
  EXPECT_EQ(m.max_squared_norm, 9);  // A negative of the second row.
  EXPECT_NEAR(m.mean_squared_norm, (0.25 * 2.25 + 0.75 * 0.25 + 0.75 * 1 + 0.25 * 9) / 2, 1e-12);
}

TEST(ExpectedMomentsTest, KnowThatGradientsAreClipped) {
  const Batch batch{FromRows({{2}, {4}}), {0.25F, 0.75F}, 1};
  const ClassMoments m = *ExpectedMoments(batch.label_free());
  EXPECT_EQ(m.max_squared_norm, 1);
  EXPECT_NEAR(m.mean_difference[0], -1 - (0.75 * 0.5 + 0.25 * 1), 1e-12);
}

// The sample moments of labels that are drawn from the predictions, over 4,000 draws: shares, means and variances are
// ratios of sums whose expectations these moments are. Six standard errors, as the draws scatter, and 2% for the bias
// of a ratio.
TEST(ExpectedMomentsTest, AreWhatLabelsDrawnFromThePredictionsHaveOnAverage) {
  constexpr int64_t kRows = 400, kCols = 3;
  constexpr int kDraws = 4000;
  const Batch batch = RandomBatch(kRows, kCols, 5);
  const ClassMoments expected = *ExpectedMoments(batch.label_free());
  std::mt19937 random(8);
  std::uniform_real_distribution<float> uniform;
  std::vector<std::vector<double>> drawn(3 + kCols);
  for (int draw = 0; draw < kDraws; ++draw) {
    double count[2] = {}, sums[2][kCols] = {}, squares[2] = {};
    for (int64_t j = 0; j < kRows; ++j) {
      const int label = uniform(random) < batch.probabilities[j] ? 1 : 0;
      count[label] += 1;
      for (int64_t k = 0; k < kCols; ++k) {
        const double g = (batch.probabilities[j] - label) * static_cast<double>(batch.directions.row(j)[k]);
        sums[label][k] += g;
        squares[label] += g * g;
      }
    }
    double mean_squared[2] = {};
    for (int64_t k = 0; k < kCols; ++k) {
      drawn[3 + k].push_back(sums[1][k] / count[1] - sums[0][k] / count[0]);
      for (int label : {0, 1}) {
        mean_squared[label] += sums[label][k] / count[label] * sums[label][k] / count[label];
      }
    }
    drawn[0].push_back(count[1] / kRows);
    for (int label : {0, 1}) {
      drawn[1 + label].push_back((squares[label] / count[label] - mean_squared[label]) / kCols);
    }
  }
  const std::vector<double> wanted = {expected.p,
                                      expected.u,
                                      expected.v,
                                      expected.mean_difference[0],
                                      expected.mean_difference[1],
                                      expected.mean_difference[2]};
  for (size_t i = 0; i < wanted.size(); ++i) {
    double mean = 0, squares = 0;
    for (double value : drawn[i]) {
      mean += value / kDraws;
      squares += value * value / kDraws;
    }
    EXPECT_NEAR(mean, wanted[i], 6 * std::sqrt((squares - mean * mean) / kDraws) + 0.02 * std::abs(wanted[i])) << i;
  }
}

TEST(ExpectedMomentsTest, HaveBothClassesThoughTheModelIsCertain) {
  const Batch batch{FromRows({{1, 2}, {3, -1}}), {0, 0}};
  const ClassMoments m = *ExpectedMoments(batch.label_free());
  EXPECT_GT(m.p, 0);
  EXPECT_TRUE(m.informative());
  // Negatives have no gradient; positives -v.
  EXPECT_NEAR(m.mean_difference[0], -2, 1e-9);
  EXPECT_EQ(m.max_squared_norm, 10);
}

TEST(ExpectedMomentsTest, SayThatNothingMovesNothing) {
  const Batch batch{Matrix(4, 3), std::vector<float>(4, 0.5F)};
  const ClassMoments m = *ExpectedMoments(batch.label_free());
  EXPECT_FALSE(m.informative());
  EXPECT_EQ(m.Scale(), 1);
  EXPECT_EQ(m.u + m.v + m.dg_squared, 0);
}

TEST(ExpectedMomentsTest, TakeTheLargestFloats) {
  const float huge = std::numeric_limits<float>::max();
  const Batch batch{FromRows({{huge, huge}, {-huge, -huge}}), {0.5F, 0.5F}};
  const ClassMoments m = *ExpectedMoments(batch.label_free());
  EXPECT_TRUE(std::isfinite(m.max_squared_norm));
  EXPECT_FALSE(m.informative());  // The two cancel.
}

TEST(ExpectedMomentsTest, RefuseWhatDoesNotFit) {
  const std::vector<float> one = {0.5F};
  EXPECT_EQ(ExpectedMoments({Matrix(0, 4), {}}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ExpectedMoments({Matrix(1, 0), one}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ExpectedMoments({Matrix(2, 2), one}).status().code(), absl::StatusCode::kInvalidArgument);
  for (float bad : {std::nanf(""), -0.1F, 1.5F}) {
    const std::vector<float> probability = {bad};
    EXPECT_EQ(ExpectedMoments({Matrix(1, 2), probability}).status().code(), absl::StatusCode::kInternal) << bad;
  }
  Matrix directions(1, 2);
  directions.row(0)[1] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(ExpectedMoments({directions, one}).status().code(), absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace splitveil
