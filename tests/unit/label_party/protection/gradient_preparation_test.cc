#include "label_party/protection/gradient_preparation.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <vector>

#include "common/leakage/linear_algebra.h"
#include "tests/unit/label_party/protection/protection_fixture.h"

namespace splitveil {
namespace {

struct Sample {
  Matrix z;
  std::vector<float> y;
};

// Rows whose first components tell the label, as far as `signal` goes; every third label is positive.
Sample MakeSample(int64_t rows, int64_t cols, double signal, uint32_t seed = 3) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Sample sample{Matrix(rows, cols), std::vector<float>(rows)};
  for (int64_t i = 0; i < rows; ++i) {
    sample.y[i] = i % 3 == 0 ? 1.0f : 0.0f;
    for (float& component : sample.z.row(i)) {
      component = normal(random) + static_cast<float>(signal) * sample.y[i];
    }
  }
  return sample;
}

using Square = std::vector<std::vector<double>>;

// Double-centres by the definition: a_ij - mean of row i - mean of column j + mean of all.
Square Centred(const Square& a) {
  const size_t n = a.size();
  Square centred = a;
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) {
      double row = 0;
      double column = 0;
      double all = 0;
      for (size_t k = 0; k < n; ++k) {
        row += a[i][k] / static_cast<double>(n);
        column += a[k][j] / static_cast<double>(n);
        for (size_t l = 0; l < n; ++l) {
          all += a[k][l] / static_cast<double>(n * n);
        }
      }
      centred[i][j] = a[i][j] - row - column + all;
    }
  }
  return centred;
}

double Sum(const Square& a, const Square& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = 0; j < a.size(); ++j) {
      sum += a[i][j] * b[i][j];
    }
  }
  return sum;
}

// Szekely et al.'s definition 5, every matrix written out.
double BruteForce(const Matrix& z, const std::vector<float>& y) {
  const size_t n = y.size();
  Square a(n, std::vector<double>(n));
  Square b = a;
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) {
      double squared = 0;
      for (int64_t k = 0; k < z.cols(); ++k) {
        squared += std::pow(static_cast<double>(z.row(i)[k]) - z.row(j)[k], 2);
      }
      a[i][j] = std::sqrt(squared);
      b[i][j] = std::abs(static_cast<double>(y[i]) - y[j]);
    }
  }
  const Square A = Centred(a);
  const Square B = Centred(b);
  return std::sqrt(Sum(A, B) / std::sqrt(Sum(A, A) * Sum(B, B)));
}

// Central differences of the brute-force value, every component.
TEST(DistanceCorrelationGradientTest, AgreesWithFiniteDifferences) {
  for (double signal : {0.3, 3.0}) {
    Sample sample = MakeSample(15, 9, signal);
    Matrix gradient(15, 9);
    ASSERT_TRUE(AddDistanceCorrelationGradient(0.5, sample.z, sample.y, gradient).ok());
    constexpr float kStep = 1.0f / 256;  // Exact in float beside values of order 1.
    for (int64_t i = 0; i < sample.z.size(); ++i) {
      float& component = sample.z.data()[i];
      const float center = component;
      component = center + kStep;
      const double ahead = component;
      const double above = std::log(BruteForce(sample.z, sample.y));
      component = center - kStep;
      const double step = ahead - component;
      const double below = std::log(BruteForce(sample.z, sample.y));
      component = center;
      EXPECT_NEAR(gradient.data()[i], 0.5 * 15 * (above - below) / step, 2e-3) << i;
    }
  }
}

TEST(DistanceCorrelationGradientTest, IsAddedToWhatIsThere) {
  const Sample sample = MakeSample(10, 4, 1);
  Matrix alone(10, 4);
  Matrix on_top(10, 4);
  on_top.row(3)[2] = 7;
  ASSERT_TRUE(AddDistanceCorrelationGradient(1, sample.z, sample.y, alone).ok());
  ASSERT_TRUE(AddDistanceCorrelationGradient(1, sample.z, sample.y, on_top).ok());
  EXPECT_NEAR(on_top.row(3)[2] - alone.row(3)[2], 7, 1e-5);
  EXPECT_EQ(on_top.row(0), static_cast<const Matrix&>(alone).row(0));
}

// Moves no mean: what is taken from one row is given to another.
TEST(DistanceCorrelationGradientTest, SumsToNothingOverTheBatch) {
  const Sample sample = MakeSample(40, 3, 1);
  Matrix gradient(40, 3);
  ASSERT_TRUE(AddDistanceCorrelationGradient(1, sample.z, sample.y, gradient).ok());
  for (int64_t k = 0; k < 3; ++k) {
    double sum = 0;
    for (int64_t i = 0; i < 40; ++i) {
      sum += gradient.row(i)[k];
    }
    EXPECT_NEAR(sum, 0, 1e-4);
  }
}

TEST(DistanceCorrelationGradientTest, DescentLowersTheDependence) {
  Sample sample = MakeSample(60, 4, 2);
  const double before = BruteForce(sample.z, sample.y);
  for (int step = 0; step < 200; ++step) {
    Matrix gradient(60, 4);
    ASSERT_TRUE(AddDistanceCorrelationGradient(5, sample.z, sample.y, gradient).ok());
    for (int64_t i = 0; i < gradient.size(); ++i) {
      sample.z.data()[i] -= 0.02f * gradient.data()[i];
    }
  }
  EXPECT_LT(BruteForce(sample.z, sample.y), 0.7 * before);
}

TEST(DistanceCorrelationGradientTest, IsNothingForOneClassAndForEqualRows) {
  const Sample sample = MakeSample(10, 4, 1);
  Matrix gradient(10, 4);
  ASSERT_TRUE(AddDistanceCorrelationGradient(1, sample.z, std::vector<float>(10, 0), gradient).ok());
  ASSERT_TRUE(AddDistanceCorrelationGradient(1, Matrix(10, 4), sample.y, gradient).ok());
  for (int64_t i = 0; i < gradient.size(); ++i) {
    EXPECT_EQ(gradient.data()[i], 0);
  }
}

TEST(DistanceCorrelationGradientTest, IsFiniteWhereSomeRowsAreEqual) {
  Sample sample = MakeSample(10, 4, 1);
  for (int64_t k = 0; k < 4; ++k) {
    sample.z.row(4)[k] = sample.z.row(5)[k];
  }
  Matrix gradient(10, 4);
  ASSERT_TRUE(AddDistanceCorrelationGradient(1, sample.z, sample.y, gradient).ok());
  for (int64_t i = 0; i < gradient.size(); ++i) {
    EXPECT_TRUE(std::isfinite(gradient.data()[i]));
  }
}

TEST(DistanceCorrelationGradientTest, FailsForShapesThatDoNotFit) {
  const Sample sample = MakeSample(10, 4, 1);
  Matrix narrow(10, 3);
  Matrix fits(10, 4);
  EXPECT_EQ(AddDistanceCorrelationGradient(1, sample.z, sample.y, narrow).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(AddDistanceCorrelationGradient(1, sample.z, {0, 1}, fits).code(), absl::StatusCode::kInvalidArgument);
}

TEST(ClipRowsTest, ScalesLongerRowsDownToTheNorm) {
  Matrix gradients = MakeLabelledBatch(40, 9).gradients;
  const Matrix before = gradients;
  ClipRows(0.4, gradients);
  int64_t clipped = 0;
  for (int64_t j = 0; j < 40; ++j) {
    const double scale = 0.4 / std::sqrt(SquaredNorm(before.row(j)));
    clipped += scale < 1;
    for (int64_t k = 0; k < 9; ++k) {
      EXPECT_NEAR(gradients.row(j)[k], std::min(1.0, scale) * before.row(j)[k], 1e-6);
    }
  }
  EXPECT_GT(clipped, 5);
  EXPECT_LT(clipped, 40);
}

TEST(ClipRowsTest, LeavesShorterRowsBitByBit) {
  Matrix gradients = MakeLabelledBatch(40, 9).gradients;
  const std::vector<float> before = ValuesOf(gradients);
  ClipRows(100, gradients);
  EXPECT_EQ(ValuesOf(gradients), before);
}

TEST(ClipRowsTest, LeavesARowThatIsNotFiniteSo) {
  Matrix gradients = MakeLabelledBatch(2, 4).gradients;
  gradients.row(0)[1] = std::numeric_limits<float>::quiet_NaN();
  gradients.row(1)[1] = std::numeric_limits<float>::infinity();
  ClipRows(0.1, gradients);
  EXPECT_TRUE(std::isnan(gradients.row(0)[1]));
  EXPECT_FALSE(std::isfinite(gradients.row(1)[1]));
}

}  // namespace
}  // namespace splitveil
