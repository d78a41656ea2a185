#include "common/leakage/dense_products.h"

#include <cstdint>
#include <gtest/gtest.h>
#include <random>

namespace splitveil {
namespace {

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

}  // namespace
}  // namespace splitveil
