#include <algorithm>
#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <random>
#include <vector>

#include "common/leakage/linear_algebra.h"
#include "common/leakage/scores.h"
#include "common/leakage/summary.h"
#include "common/matrix/matrix.h"

namespace splitveil {
namespace {

Matrix Draw(int64_t rows, int64_t cols) {
  std::mt19937_64 random(11);  // NOLINT(cert-msc51-cpp): a fixed seed on purpose.
  std::normal_distribution<float> normal;
  Matrix matrix(rows, cols);
  std::generate(matrix.data(), matrix.data() + matrix.size(), [&] { return normal(random); });
  return matrix;
}

TEST(MajorityDirectionTest, CountsEveryOtherRowOfASmallBatch) {
  const Matrix gradients = Draw(37, 6);
  const std::vector<float> scores = MajorityDirectionScores(gradients);
  for (int64_t j = 0; j < 37; ++j) {
    double agreeing = 0;
    double cosines = 0;
    for (int64_t other = 0; other < 37; ++other) {
      if (other != j) {
        const double cosine = InnerProduct(gradients.row(j), gradients.row(other)) /
                              std::sqrt(SquaredNorm(gradients.row(j)) * SquaredNorm(gradients.row(other)));
        agreeing += cosine > 0;
        cosines += cosine;
      }
    }
    EXPECT_NEAR(scores[j], -(agreeing + cosines / 36 / 4) / 36, 1e-6);
  }
}

// Negatives point one way, positives the other, at any length.
TEST(MajorityDirectionTest, TellsOppositeClassesApart) {
  Matrix gradients(10, 2);
  std::vector<uint8_t> labels(10);
  for (int64_t j = 0; j < 10; ++j) {
    labels[j] = j % 4 == 0;
    gradients.row(j)[0] = (labels[j] == 1 ? 1.0f : -0.1f) * static_cast<float>(j + 1);
    gradients.row(j)[1] = 0.01f * static_cast<float>(j);
  }
  EXPECT_EQ(*LeakAuc(MajorityDirectionScores(gradients), labels), 1);
}

TEST(MajorityDirectionTest, ScaleOfARowDoesNotMatter) {
  const Matrix gradients = Draw(100, 4);
  Matrix scaled = gradients;
  for (int64_t j = 0; j < 100; ++j) {
    for (float& component : scaled.row(j)) {
      component *= static_cast<float>(1 << (j % 10));
    }
  }
  EXPECT_EQ(MajorityDirectionScores(scaled), MajorityDirectionScores(gradients));
}

TEST(MajorityDirectionTest, EvenlySpacedRowsStandForALargeBatch) {
  const Matrix gradients = Draw(3 * kMajorityReferences, 4);
  Matrix references(kMajorityReferences, 4);
  for (int64_t r = 0; r < kMajorityReferences; ++r) {
    std::copy_n(gradients.row(3 * r).data(), 4, references.row(r).data());
  }
  const std::vector<float> scores = MajorityDirectionScores(gradients);
  const std::vector<float> expected = MajorityDirectionScores(references);
  for (int64_t r = 0; r < kMajorityReferences; ++r) {
    EXPECT_EQ(scores[3 * r], expected[r]);
  }
}

TEST(MajorityDirectionTest, RowsThatHaveNoDirectionAgreeWithNone) {
  EXPECT_EQ(MajorityDirectionScores(Matrix(3, 2)), std::vector<float>(3, 0.0f));
  EXPECT_EQ(MajorityDirectionScores(Draw(1, 2)), std::vector<float>(1, 0.0f));
  EXPECT_TRUE(MajorityDirectionScores(Matrix(0, 2)).empty());
}

TEST(MajorityDirectionTest, ARowThatIsNoNumberIsNotHidden) {
  Matrix gradients = Draw(5, 2);
  gradients.row(2)[0] = NAN;
  EXPECT_TRUE(std::isnan(MajorityDirectionScores(gradients)[2]));
}

}  // namespace
}  // namespace splitveil
