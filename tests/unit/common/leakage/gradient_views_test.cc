#include "common/leakage/gradient_views.h"

#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <limits>
#include <random>

#include "common/leakage/inner_product.h"

namespace splitveil {
namespace {

constexpr int64_t kRows = 400;
constexpr int64_t kUnits = 24;

// A quarter of the rows lies at (3, 0, ...), the others at (-1, 0, ...); across, `spread` in components 1 and 2.
Matrix Draw(uint64_t seed, float spread = 0.1f) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  Matrix rows(kRows, kUnits);
  for (int64_t j = 0; j < kRows; ++j) {
    rows.row(j)[0] = j % 4 == 0 ? 3.0f : -1.0f;
    rows.row(j)[1] = spread * normal(random);
    rows.row(j)[2] = 0.5f * spread * normal(random);
  }
  return rows;
}

TEST(GradientSplitterTest, TheMainViewIsStandardisedAndPositiveOnTheSideOfTheFew) {
  GradientSplitter splitter;
  const GradientViews views = splitter.Split(Draw(1));
  ASSERT_EQ(views.main.size(), kRows);
  double sum = 0;
  double squared = 0;
  for (int64_t j = 0; j < kRows; ++j) {
    EXPECT_NEAR(views.main[j], j % 4 == 0 ? std::sqrt(3.0) : -std::sqrt(1 / 3.0), 0.05) << j;
    sum += views.main[j];
    squared += views.main[j] * views.main[j];
  }
  EXPECT_NEAR(sum, 0, 1e-2);
  EXPECT_NEAR(squared, kRows, 1e-2);
}

TEST(GradientSplitterTest, TheOtherViewHoldsWhatLiesAcross) {
  GradientSplitter splitter;
  const Matrix rows = Draw(1);
  const GradientViews views = splitter.Split(rows);
  ASSERT_EQ(views.across.cols(), GradientSplitter::kDirections);
  for (int64_t j = 0; j < kRows; ++j) {
    EXPECT_NEAR(SquaredNorm(views.across.row(j)), 1, 1e-5);
    // Rows that agree across the main direction agree in the view, wherever they are along it.
    for (int64_t i = 0; i < 5; ++i) {
      const double product = rows.row(i)[1] * rows.row(j)[1];
      if (std::abs(rows.row(i)[1]) > 3 * std::abs(rows.row(i)[2]) &&
          std::abs(rows.row(j)[1]) > 3 * std::abs(rows.row(j)[2])) {
        EXPECT_GT(InnerProduct(views.across.row(i), views.across.row(j)) * product, 0) << i << "," << j;
      }
    }
  }
}

TEST(GradientSplitterTest, SaysHowItsCoordinatesTurn) {
  GradientSplitter splitter;
  EXPECT_EQ(splitter.Split(Draw(1)).turn.size(), 0);
  Matrix rows = Draw(2);
  const GradientViews before = splitter.Split(rows);
  const GradientViews after = splitter.Split(rows);
  ASSERT_EQ(after.turn.rows(), GradientSplitter::kDirections);
  // The row's coordinates of before, turned, point where it is now.
  for (int64_t j = 0; j < 20; ++j) {
    double product = 0;
    for (int64_t i = 0; i < after.turn.rows(); ++i) {
      product += InnerProduct(after.turn.row(i), before.across.row(j)) * after.across.row(j)[i];
    }
    EXPECT_GT(product, 0.95) << j;
  }
}

TEST(GradientSplitterTest, ABatchThatTellsNothingIsEmptyAndForgotten) {
  GradientSplitter splitter;
  GradientSplitter other;
  const GradientViews expected = (other.Split(Draw(1)), other.Split(Draw(2)));
  splitter.Split(Draw(1));
  EXPECT_TRUE(splitter.Split(Matrix(kRows, kUnits)).empty());
  Matrix broken = Draw(3);
  broken.row(5)[3] = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(splitter.Split(broken).empty());
  EXPECT_EQ(splitter.Split(broken).rows, kRows);
  EXPECT_EQ(splitter.Split(Draw(2)).main, expected.main);
}

TEST(GradientSplitterTest, TakesRowsOfOneComponent) {
  GradientSplitter splitter;
  Matrix rows(4, 1);
  rows.row(0)[0] = 3;
  const GradientViews views = splitter.Split(rows);
  ASSERT_EQ(views.main.size(), 4);
  EXPECT_GT(views.main[0], 1);
  EXPECT_EQ(views.across.cols(), 1);
}

}  // namespace
}  // namespace splitveil
