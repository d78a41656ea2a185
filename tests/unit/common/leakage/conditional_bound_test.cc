#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "common/leakage/bounds.h"
#include "common/leakage/conditional_likelihood.h"
#include "common/leakage/summary.h"
#include "common/matrix/matrix.h"

namespace splitveil {
namespace {

constexpr int64_t kCols = 5;

// Rows that one label moves by (-3, 0, 4, 0, 0) / 10 each.
struct Rows {
  explicit Rows(int64_t rows = 1) : directions(rows, kCols), probabilities(static_cast<size_t>(rows), 0.25F) {
    for (int64_t j = 0; j < rows; ++j) {
      directions.row(j)[0] = -0.3F;
      directions.row(j)[2] = 0.4F;
    }
  }
  ReleasingHead Head(const NoiseVariances& negative, const NoiseVariances& positive) const {
    ReleasingHead head;
    head.label_directions = directions;
    head.probabilities = probabilities;
    head.noise_negative = negative;
    head.noise_positive = positive;
    head.noise_direction = line;
    return head;
  }
  double Bound(const NoiseVariances& negative, const NoiseVariances& positive) const {
    return ConditionalAucBound(Head(negative, positive));
  }

  Matrix directions;
  std::vector<float> probabilities;
  std::vector<float> line = {2, 0, 0, 0, 0};
};

TEST(ConditionalAucBoundTest, IsThatOfTwoGaussiansOfTheSameNoise) {
  // d'^2 = 0.09 / 0.5 + 0.16 / 0.25; the AUC of the likelihood ratio is Phi(d' / sqrt 2).
  EXPECT_NEAR(Rows().Bound({0.5, 0.25}, {0.5, 0.25}), GaussianAucBound(0.18 + 0.64), 1e-6);
  EXPECT_NEAR(Rows().Bound({0.25, 0.25}, {0.25, 0.25}), GaussianAucBound(1), 1e-6);
}

TEST(ConditionalAucBoundTest, IsTheDivergenceOfTwoGaussiansOfDifferentNoise) {
  const double spreads = (0.5 / 0.4 + 0.4 / 0.5 - 2) + 4 * (0.25 / 0.2 + 0.2 / 0.25 - 2);
  const double means = 0.09 * (1 / 0.5 + 1 / 0.4) + 0.16 * (1 / 0.25 + 1 / 0.2);
  EXPECT_NEAR(Rows().Bound({0.5, 0.25}, {0.4, 0.2}), AucBound(0.5 * (spreads + means)), 1e-6);
}

TEST(ConditionalAucBoundTest, IsOfTheMostExposedRow) {
  Rows rows(300);
  const double before = rows.Bound({1, 1}, {1, 1});
  rows.directions.row(170)[1] = 1.5F;
  EXPECT_GT(rows.Bound({1, 1}, {1, 1}), before);
  EXPECT_NEAR(rows.Bound({1, 1}, {1, 1}), GaussianAucBound(0.25 + 2.25), 1e-6);
}

// p and 1 - p each scaled to what the clipping leaves.
TEST(ConditionalAucBoundTest, CountsWhatClippingLeaves) {
  const Rows rows;
  ReleasingHead head = rows.Head({1, 1}, {1, 1});
  head.clip_norm = 0.25;  // |v| = 0.5: of 0.125 and 0.375 the first stays.
  EXPECT_NEAR(ConditionalAucBound(head), GaussianAucBound(0.375 * 0.375), 1e-6);
  head.clip_norm = 0.4;
  EXPECT_NEAR(ConditionalAucBound(head), GaussianAucBound(0.25), 1e-6);
}

TEST(ConditionalAucBoundTest, IsOneWhereALabelShowsBesideTheNoise) {
  EXPECT_EQ(Rows().Bound({0.5, 0}, {0.5, 0}), 1);
  EXPECT_EQ(Rows().Bound({0, 0.25}, {0, 0.25}), 1);
  EXPECT_EQ(Rows().Bound({0.5, 0.25}, {0.5, 0}), 1);
}

TEST(ConditionalAucBoundTest, IsOneHalfWhereNoLabelMovesAnything) {
  Rows rows;
  rows.directions = Matrix(1, kCols);
  EXPECT_EQ(rows.Bound({0, 0}, {0, 0}), 0.5);
  EXPECT_EQ(rows.Bound({0.5, 0.25}, {0.5, 0.25}), 0.5);
}

TEST(ConditionalAucBoundTest, IsOneWhereItIsNotKnown) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  Rows rows;
  EXPECT_EQ(rows.Bound({kNan, kNan}, {kNan, kNan}), 1);
  EXPECT_EQ(rows.Bound({0.5, 0.25}, {0.5, kNan}), 1);
  EXPECT_EQ(rows.Bound({-1, 0.25}, {0.5, 0.25}), 1);
  ReleasingHead head = rows.Head({1, 1}, {1, 1});
  head.releases_repeat = true;
  EXPECT_EQ(ConditionalAucBound(head), 1);
  head = rows.Head({1, 1}, {1, 1});
  head.label_directions = {};
  EXPECT_EQ(ConditionalAucBound(head), 1);
  rows.line = {};
  EXPECT_EQ(rows.Bound({0.5, 0.25}, {0.5, 0.25}), 1);
  EXPECT_LT(rows.Bound({0.25, 0.25}, {0.25, 0.25}), 1) << "isotropic noise needs no line";
  rows.directions.row(0)[3] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(rows.Bound({0.25, 0.25}, {0.25, 0.25}), 1);
}

// The likelihood ratio itself, tried on 20,000 draws of rows that are all alike: its AUC is the bound where the noise
// of both classes is the same, and below it where not. Standard error 0.0035; 5 of them, once in 10^6 runs.
TEST(ConditionalAucBoundTest, IsWhatTheConditionalLikelihoodRatioReaches) {
  constexpr int64_t kRows = 20'000;
  Rows rows(kRows);
  rows.line = {1, 0, 0, 0, 0};  // The ratio takes a unit vector.
  for (const auto& [negative, positive] :
       {std::pair<NoiseVariances, NoiseVariances>{{0.3, 0.2}, {0.3, 0.2}}, {{0.3, 0.2}, {0.2, 0.25}}}) {
    std::mt19937_64 random(11);
    std::normal_distribution<double> normal;
    std::vector<uint8_t> labels(kRows);
    Matrix released(kRows, kCols);
    for (int64_t j = 0; j < kRows; ++j) {
      labels[static_cast<size_t>(j)] = static_cast<uint8_t>(j % 2);
      const NoiseVariances& noise = j % 2 == 1 ? positive : negative;
      for (int64_t i = 0; i < kCols; ++i) {
        const double spread = std::sqrt(i == 0 ? noise.along : noise.across);
        released.row(j)[i] = static_cast<float>((0.25 - static_cast<double>(j % 2)) * rows.directions.row(j)[i] +
                                                spread * normal(random));
      }
    }
    const std::vector<double> ratios = ConditionalLogRatios(released, rows.Head(negative, positive));
    const double auc = *LeakAuc(std::vector<float>(ratios.begin(), ratios.end()), labels, {});
    const double bound = rows.Bound(negative, positive);
    EXPECT_LE(auc, bound + 5 * 0.0035);
    if (negative.along == positive.along) {
      EXPECT_NEAR(auc, bound, 5 * 0.0035);
    }
  }
}

}  // namespace
}  // namespace splitveil
