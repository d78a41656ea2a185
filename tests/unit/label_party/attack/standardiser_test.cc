#include "label_party/attack/standardiser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <vector>

namespace splitveil {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;

Matrix MatrixOf(const std::vector<float>& values, int64_t cols) {
  return Matrix(ConstMatrixView(values.data(), static_cast<int64_t>(values.size()) / cols, cols));
}

TEST(StandardiserTest, BringsColumnsToMeanZeroAndSpreadOne) {
  // Means 3 and 10, standard deviations 2 and 5.
  const Standardiser standardiser(MatrixOf({1, 5, 5, 15}, 2));
  EXPECT_THAT(standardiser.Apply(MatrixOf({1, 5, 5, 15, 3, 20}, 2)).row(0), ElementsAre(-1, -1));
  EXPECT_THAT(standardiser.Apply(MatrixOf({3, 20}, 2)).row(0), ElementsAre(0, 2));
}

TEST(StandardiserTest, AColumnThatDoesNotVaryKeepsItsScale) {
  const Standardiser standardiser(MatrixOf({0, 7.3F, 0, 7.3F, 0, 7.3F}, 2));
  EXPECT_THAT(standardiser.Apply(MatrixOf({2, 8.3F}, 2)).row(0), ElementsAre(2, FloatNear(1, 1e-5)));
}

TEST(StandardiserTest, BackPropagatesAsFiniteDifferencesDo) {
  const Standardiser standardiser(MatrixOf({1, 5, 5, 15}, 2));
  const std::vector<float> weights = {0.5F, -3};  // Of a sum of the results, whose gradient they are.
  const auto sum = [&](float x, float y) {
    const Matrix result = standardiser.Apply(MatrixOf({x, y}, 2));
    return weights[0] * result.data()[0] + weights[1] * result.data()[1];
  };
  Matrix gradient = MatrixOf(weights, 2);
  standardiser.BackPropagate(gradient);
  EXPECT_NEAR(gradient.data()[0], (sum(4, 8) - sum(2, 8)) / 2, 1e-5);
  EXPECT_NEAR(gradient.data()[1], (sum(3, 9) - sum(3, 7)) / 2, 1e-5);
}

TEST(StandardiserTest, OfNoRowsChangesNothing) {
  EXPECT_THAT(Standardiser().Apply(MatrixOf({2, 8}, 2)).row(0), ElementsAre(2, 8));
}

}  // namespace
}  // namespace splitveil
