#include "common/leakage/scores.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <vector>

#include "common/leakage/linear_algebra.h"
#include "common/matrix/matrix.h"

namespace splitveil {
namespace {

Matrix FromRows(const std::vector<std::vector<float>>& rows) {
  Matrix matrix(rows.size(), rows.front().size());
  for (int64_t i = 0; i < matrix.rows(); ++i) {
    std::copy(rows[i].begin(), rows[i].end(), matrix.row(i).begin());
  }
  return matrix;
}

TEST(NormScoresTest, AreTheEuclideanNormsOfTheRows) {
  const std::vector<float> scores = NormScores(FromRows({{3, 4}, {0, 0}, {-5, 12}}));
  EXPECT_EQ(scores, (std::vector<float>{5, 0, 13}));
}

TEST(NormScoresTest, DoNotOverflowWhereTheSquaresOfFloatsWould) {
  EXPECT_FLOAT_EQ(NormScores(FromRows({{3e30f, 4e30f}}))[0], 5e30f);
}

TEST(NormScoresTest, DoNotUnderflowWhereTheSquaresOfFloatsWould) {
  EXPECT_FLOAT_EQ(NormScores(FromRows({{3e-30f, 4e-30f}}))[0], 5e-30f);
}

TEST(NormScoresTest, SumLongRowsInDouble) {
  const Matrix ones = FromRows({std::vector<float>(1'000'003, 0.1f)});
  EXPECT_FLOAT_EQ(NormScores(ones)[0], static_cast<float>(0.1f * std::sqrt(1'000'003.0)));
}

TEST(NormScoresTest, PassOnWhatIsNotFinite) {
  EXPECT_TRUE(std::isnan(NormScores(FromRows({{1, std::nanf("")}}))[0]));
  EXPECT_TRUE(std::isinf(NormScores(FromRows({{1, std::numeric_limits<float>::infinity()}}))[0]));
}

TEST(CosineScoresTest, AreOneZeroAndMinusOneForParallelOrthogonalAndOpposite) {
  const std::vector<float> g_plus = {0, 2};
  EXPECT_EQ(CosineScores(FromRows({{0, 7}, {7, 0}, {0, -0.5f}}), g_plus), (std::vector<float>{1, 0, -1}));
}

TEST(CosineScoresTest, DoNotDependOnTheScaleOfAnything) {
  const std::vector<float> g_plus = {1e-30f, 2e-30f, -1e-30f};
  const std::vector<float> scores = CosineScores(FromRows({{1e30f, 0, 1e30f}, {1e-30f, 1e-30f, 0}}), g_plus);
  EXPECT_NEAR(scores[0], 0, 1e-7);
  EXPECT_NEAR(scores[1], 3 / std::sqrt(12.0), 1e-7);
}

TEST(CosineScoresTest, AreZeroForARowOfZeros) {
  const std::vector<float> g_plus = {1, 1};
  EXPECT_EQ(CosineScores(FromRows({{0, 0}}), g_plus)[0], 0);
}

TEST(CosineScoresTest, AreZeroForAHintOfZeros) {
  const std::vector<float> g_plus = {0, 0};
  EXPECT_EQ(CosineScores(FromRows({{1, 2}}), g_plus)[0], 0);
}

TEST(CosineScoresTest, AreNotANumberForARowThatIsNotFinite) {
  const std::vector<float> g_plus = {1, 1};
  EXPECT_TRUE(std::isnan(CosineScores(FromRows({{std::nanf(""), 0}}), g_plus)[0]));
}

TEST(InnerProductTest, AgreesWithThePlainSumForEveryLength) {
  for (size_t length = 0; length < 40; ++length) {
    std::vector<float> a(length);
    std::vector<float> b(length);
    double expected = 0;
    for (size_t i = 0; i < length; ++i) {
      a[i] = static_cast<float>(i + 1);
      b[i] = static_cast<float>(2 * i) - 7;
      expected += a[i] * b[i];
    }
    EXPECT_EQ(InnerProduct(a, b), expected) << length;
  }
}

TEST(ResidualNormScoresTest, TakesOutThePartAlongTheDirection) {
  Matrix rows(3, 2);
  const float values[] = {3, 4, 6, 8, 1e8f, 0};
  std::copy(std::begin(values), std::end(values), rows.data());
  const std::vector<float> along = {0.6f, 0.8f}, first = {1, 0};
  EXPECT_NEAR(ResidualNormScores(rows, along)[0], 0, 1e-6);
  EXPECT_NEAR(ResidualNormScores(rows, first)[1], 8, 1e-6);
  EXPECT_EQ(ResidualNormScores(rows, first)[2], 0);  // Nothing of a long row is left over.
}

TEST(ResidualNormScoresTest, IsTheWholeNormWithoutADirection) {
  Matrix rows(1, 2);
  rows.row(0)[0] = 3;
  rows.row(0)[1] = 4;
  EXPECT_EQ(ResidualNormScores(rows, {}), NormScores(rows));
}

Matrix Draw(int64_t rows, int64_t cols) {
  std::mt19937_64 random(7);  // NOLINT(cert-msc51-cpp): a fixed seed on purpose.
  std::normal_distribution<float> normal;
  Matrix matrix(rows, cols);
  std::generate(matrix.data(), matrix.data() + matrix.size(), [&] { return normal(random); });
  return matrix;
}

TEST(HintScoresTest, AreThoseOfTheNearestHint) {
  const Matrix gradients = Draw(20, 5);
  const std::vector<uint32_t> hints = {3, 0, 17, 9, 11};
  const HintScores scores(gradients, hints);
  for (int taken : {1, 3, 5}) {
    const std::vector<float> distance = scores.Distance(taken);
    const std::vector<float> product = scores.InnerProduct(taken);
    for (int64_t j = 0; j < 20; ++j) {
      double nearest = std::numeric_limits<double>::infinity();
      double largest = -nearest;
      for (int hint = 0; hint < taken; ++hint) {
        double squared = 0;
        double inner = 0;
        for (int64_t k = 0; k < 5; ++k) {
          const double own = gradients.row(j)[k];
          const double other = gradients.row(hints[hint])[k];
          squared += (own - other) * (own - other);
          inner += own * other;
        }
        nearest = std::min(nearest, std::sqrt(squared));
        largest = std::max(largest, inner);
      }
      EXPECT_NEAR(distance[j], -nearest, 1e-5);
      EXPECT_NEAR(product[j], largest, 1e-5);
    }
  }
}

TEST(HintScoresTest, AHintIsAtNoDistanceFromItself) {
  const Matrix gradients = Draw(4, 33);
  EXPECT_EQ(HintScores(gradients, std::vector<uint32_t>{2}).Distance(1)[2], 0);
}

TEST(HintScoresTest, TakesAllHintsWhereThereAreFewer) {
  const Matrix gradients = Draw(8, 3);
  const std::vector<uint32_t> hints = {1, 2};
  const HintScores scores(gradients, hints);
  EXPECT_EQ(scores.Distance(5), scores.Distance(2));
  EXPECT_EQ(scores.InnerProduct(5), scores.InnerProduct(2));
}

TEST(HintScoresTest, StaysFiniteForTheLargestGradients) {
  Matrix gradients(2, 3);
  std::fill_n(gradients.data(), 3, std::numeric_limits<float>::max());
  std::fill_n(gradients.data() + 3, 3, std::numeric_limits<float>::lowest());
  const HintScores scores(gradients, std::vector<uint32_t>{0});
  EXPECT_TRUE(std::isfinite(scores.Distance(1)[1]));
  EXPECT_TRUE(std::isfinite(scores.InnerProduct(1)[1]));
}

}  // namespace
}  // namespace splitveil
