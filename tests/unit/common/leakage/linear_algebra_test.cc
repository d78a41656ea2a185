#include "common/leakage/linear_algebra.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <vector>

#include "common/matrix/matrix.h"

namespace splitveil {
namespace {

Matrix Random(int64_t rows, int64_t cols, std::mt19937& random) {
  Matrix matrix(rows, cols);
  std::normal_distribution<float> normal;
  for (int64_t i = 0; i < matrix.size(); ++i) {
    matrix.data()[i] = normal(random);
  }
  return matrix;
}

TEST(RowProductsTest, AgreeWithPlainSums) {
  std::mt19937 random(4);
  for (int64_t cols : {1, 7, 8, 9, 64, 131}) {
    const Matrix rows = Random(5, cols, random), others = Random(5, cols, random);
    const std::vector<double> products = InnerProducts(rows, others.row(2)), norms = SquaredNorms(rows),
                              pairwise = PairwiseProducts(rows, others), distances = SquaredDistances(rows, others),
                              to_point = SquaredDistancesTo(rows, others.row(3));
    for (int64_t j = 0; j < 5; ++j) {
      double product = 0, pair = 0, norm = 0, distance = 0, distance_to_point = 0;
      for (int64_t k = 0; k < cols; ++k) {
        const double a = rows.row(j)[k], b = others.row(j)[k];
        product += a * others.row(2)[k];
        pair += a * b;
        norm += a * a;
        distance += (a - b) * (a - b);
        distance_to_point += std::pow(a - others.row(3)[k], 2);
      }
      EXPECT_NEAR(products[j], product, 1e-12);
      EXPECT_NEAR(pairwise[j], pair, 1e-12);
      EXPECT_NEAR(norms[j], norm, 1e-12);
      EXPECT_NEAR(distances[j], distance, 1e-12);
      EXPECT_NEAR(to_point[j], distance_to_point, 1e-12);
    }
  }
}

TEST(RowProductsTest, EqualRowsAreNoDistanceApart) {
  std::mt19937 random(4);
  const Matrix rows = Random(3, 21, random);
  for (double distance : SquaredDistances(rows, rows)) {
    EXPECT_EQ(distance, 0);
  }
}

TEST(RowProductsTest, TheLargestFloatsDoNotOverflow) {
  constexpr float kMost = std::numeric_limits<float>::max();
  Matrix rows(1, 9), others(1, 9);
  std::fill_n(rows.data(), 9, kMost);
  std::fill_n(others.data(), 9, -kMost);
  EXPECT_NEAR(SquaredNorms(rows)[0] / (9.0 * kMost * kMost), 1, 1e-12);
  EXPECT_NEAR(SquaredDistances(rows, others)[0] / (36.0 * kMost * kMost), 1, 1e-12);
}

TEST(RowProductsTest, ANanReachesItsRowAlone) {
  Matrix rows(3, 10);
  rows.row(1)[9] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<double> norms = SquaredNorms(rows);
  EXPECT_EQ(norms[0], 0);
  EXPECT_TRUE(std::isnan(norms[1]));
  EXPECT_EQ(norms[2], 0);
}

TEST(RowProductsTest, NoRowsGiveNothing) {
  EXPECT_TRUE(SquaredNorms(Matrix(0, 4)).empty());
  EXPECT_TRUE(InnerProducts(Matrix(0, 4), std::vector<float>(4)).empty());
}

Matrix Draw(int64_t rows, int64_t cols, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  Matrix matrix(rows, cols);
  for (int64_t i = 0; i < matrix.size(); ++i) {
    matrix.data()[i] = normal(random);
  }
  return matrix;
}

Matrix Transposed(const Matrix& matrix) {
  Matrix transposed(matrix.cols(), matrix.rows());
  for (int64_t i = 0; i < matrix.rows(); ++i) {
    for (int64_t k = 0; k < matrix.cols(); ++k) {
      transposed.row(k)[i] = matrix.row(i)[k];
    }
  }
  return transposed;
}

void ExpectProduct(const Matrix& a, const Matrix& b, const Matrix& product) {
  ASSERT_EQ(product.rows(), a.rows());
  ASSERT_EQ(product.cols(), b.cols());
  for (int64_t i = 0; i < a.rows(); ++i) {
    for (int64_t j = 0; j < b.cols(); ++j) {
      double sum = 0;
      for (int64_t k = 0; k < a.cols(); ++k) {
        sum += static_cast<double>(a.row(i)[k]) * b.row(k)[j];
      }
      EXPECT_NEAR(product.row(i)[j], sum, 1e-4) << i << "," << j;
    }
  }
}

// Shapes on both sides of a whole number of tiles.
TEST(DenseProductsTest, AreTheSumsOfTheirDefinition) {
  for (int64_t rows : {1, 7, 8, 9, 24}) {
    for (int64_t cols : {1, 15, 16, 17, 33}) {
      const Matrix a = Draw(rows, 19, 1);
      const Matrix b = Draw(19, cols, 2);
      ExpectProduct(a, b, Product(a, b));
      ExpectProduct(a, b, TransposedProduct(Transposed(a), b));
    }
  }
}

TEST(DenseProductsTest, OverNothingAreZero) {
  const Matrix product = Product(Matrix(3, 0), Matrix(0, 2));
  for (int64_t i = 0; i < product.size(); ++i) {
    EXPECT_EQ(product.data()[i], 0);
  }
  EXPECT_EQ(Product(Matrix(0, 4), Matrix(4, 2)).rows(), 0);
}

// [[4, 2, 0], [2, 5, 3], [0, 3, 6]]: x = (1, -2, 3) and (0, 1, 0) give these right sides.
TEST(PositiveSystemTest, SolvesForSeveralColumns) {
  std::vector<double> right = {0, 2, 1, 5, 12, 3};
  PositiveSystem({4, 99, 99, 2, 5, 99, 0, 3, 6}, 3, 1e-12).Solve(right, 2);
  const std::vector<double> expected = {1, 0, -2, 1, 3, 0};
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(right[i], expected[i], 1e-12) << i;
  }
}

TEST(PositiveSystemTest, ASingularMatrixStillGivesNumbers) {
  std::vector<double> right = {1, 1};
  PositiveSystem({1, 1, 1, 1}, 2, 1e-6).Solve(right, 1);
  EXPECT_TRUE(std::isfinite(right[0]) && std::isfinite(right[1]));
  EXPECT_NEAR(right[0] + right[1], 1, 1e-6);
}

// Sizes beside and above what is summed at once.
TEST(PositiveSystemTest, OfProductsSolvesTheEquationsOfThePlainProducts) {
  std::mt19937 random(8);
  for (const int64_t size : {1, 3, 4, 5, 8, 13, 40, 131}) {
    const Matrix rows = Random(size, size + 9, random);
    constexpr double kRidge = 0.25;
    std::vector<double> matrix(size * size), right(size);
    for (int64_t i = 0; i < size; ++i) {
      right[i] = static_cast<double>(i % 5) - 1;
      for (int64_t j = 0; j < size; ++j) {
        matrix[i * size + j] = i == j ? kRidge : 0;
        for (int64_t k = 0; k < rows.cols(); ++k) {
          matrix[i * size + j] += static_cast<double>(rows.row(i)[k]) * rows.row(j)[k];
        }
      }
    }
    const auto system = PositiveSystem::OfProducts(rows, kRidge, 1e-9);
    ASSERT_TRUE(system.has_value()) << size;
    std::vector<double> solved = right, of_matrix = right;
    system->Solve(solved, 1);
    PositiveSystem(matrix, size, 1e-9).Solve(of_matrix, 1);
    for (int64_t i = 0; i < size; ++i) {
      double left = 0, left_of_matrix = 0;
      for (int64_t j = 0; j < size; ++j) {
        left += matrix[i * size + j] * solved[j];
        left_of_matrix += matrix[i * size + j] * of_matrix[j];
      }
      EXPECT_NEAR(left, right[i], 1e-9) << size << ", " << i;
      EXPECT_NEAR(left_of_matrix, right[i], 1e-9) << size << ", " << i;
    }
  }
}

TEST(PositiveSystemTest, OfProductsFindsRowsThatDependOnEachOther) {
  std::mt19937 random(9);
  Matrix rows = Random(20, 30, random);
  EXPECT_TRUE(PositiveSystem::OfProducts(rows, 1e-6, 1e-3).has_value());
  for (size_t k = 0; k < 30; ++k) {
    rows.row(11)[k] = 2 * rows.row(3)[k] - rows.row(7)[k];
  }
  EXPECT_FALSE(PositiveSystem::OfProducts(rows, 1e-6, 1e-3).has_value());
  rows.row(11)[0] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(PositiveSystem::OfProducts(rows, 1e-6, 1e-3).has_value());
}

}  // namespace
}  // namespace splitveil
