#include "common/leakage/two_means.h"

#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <random>
#include <vector>

#include "common/leakage/leak_auc.h"

namespace splitveil {
namespace {

// `fewer` of `rows` lie about (4, 0, ...), the others about 0, spread 1.
Matrix Draw(int64_t rows, int64_t fewer, std::vector<uint8_t>* labels = nullptr) {
  std::mt19937_64 random(13);  // NOLINT(cert-msc51-cpp): a fixed seed on purpose.
  std::normal_distribution<float> normal;
  Matrix matrix(rows, 3);
  for (int64_t j = 0; j < rows; ++j) {
    for (float& component : matrix.row(j)) {
      component = normal(random);
    }
    matrix.row(j)[0] += j < fewer ? 4 : 0;
    if (labels != nullptr) {
      labels->push_back(j < fewer ? 1 : 0);
    }
  }
  return matrix;
}

double SquaredDistance(absl::Span<const float> row, const std::vector<double>& centre) {
  double squared = 0;
  for (size_t k = 0; k < row.size(); ++k) {
    squared += (row[k] - centre[k]) * (row[k] - centre[k]);
  }
  return squared;
}

TEST(TwoMeansTest, ScoresAreDifferencesOfSquaredDistancesToSettledCentres) {
  const Matrix rows = Draw(200, 50);
  const std::vector<float> scores = TwoMeansScores(rows, std::vector<float>{0.8f, 0.6f, 0});
  // The scores' signs are the clusters; their means are the centres that the scores are measured from.
  std::vector<std::vector<double>> centres(2, std::vector<double>(3));
  std::vector<double> sizes(2);
  for (int64_t j = 0; j < 200; ++j) {
    const int cluster = scores[j] > 0 ? 1 : 0;
    sizes[cluster] += 1;
    for (int k = 0; k < 3; ++k) {
      centres[cluster][k] += rows.row(j)[k];
    }
  }
  for (int cluster : {0, 1}) {
    for (double& component : centres[cluster]) {
      component /= sizes[cluster];
    }
  }
  EXPECT_LT(sizes[1], sizes[0]);
  for (int64_t j = 0; j < 200; ++j) {
    EXPECT_NEAR(scores[j], SquaredDistance(rows.row(j), centres[0]) - SquaredDistance(rows.row(j), centres[1]), 1e-4);
  }
}

TEST(TwoMeansTest, TheSmallerClusterIsTakenForPositives) {
  std::vector<uint8_t> labels;
  const Matrix rows = Draw(200, 40, &labels);
  for (float side : {1.0f, -1.0f}) {
    EXPECT_GT(*LeakAuc(TwoMeansScores(rows, std::vector<float>{side, 0, 0}), labels), 0.99);
  }
}

TEST(TwoMeansTest, OneClusterTellsNothing) {
  EXPECT_EQ(TwoMeansScores(Matrix(5, 3), std::vector<float>{1, 0, 0}), std::vector<float>(5, 0.0f));
  EXPECT_EQ(TwoMeansScores(Draw(5, 0), std::vector<float>{0, 0, 0}), std::vector<float>(5, 0.0f));
  EXPECT_EQ(TwoMeansScores(Draw(5, 0), {}), std::vector<float>(5, 0.0f));
  EXPECT_EQ(TwoMeansScores(Draw(1, 0), std::vector<float>{1, 0, 0}), std::vector<float>(1, 0.0f));
  EXPECT_TRUE(TwoMeansScores(Matrix(0, 3), std::vector<float>{1, 0, 0}).empty());
}

TEST(TwoMeansTest, OfTwoEqualClustersTheOneAlongTheDirectionIsPositive) {
  Matrix rows(2, 1);
  rows.row(0)[0] = -1;
  rows.row(1)[0] = 1;
  EXPECT_EQ(TwoMeansScores(rows, std::vector<float>{1}), (std::vector<float>{-4, 4}));
  EXPECT_EQ(TwoMeansScores(rows, std::vector<float>{-1}), (std::vector<float>{4, -4}));
}

TEST(TwoMeansTest, StaysFiniteForTheLargestRows) {
  Matrix rows(3, 1);
  rows.row(0)[0] = 3e38f;
  rows.row(1)[0] = -3e38f;
  for (float score : TwoMeansScores(rows, std::vector<float>{1})) {
    EXPECT_TRUE(std::isfinite(score));
  }
}

}  // namespace
}  // namespace splitveil
