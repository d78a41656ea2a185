#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <random>
#include <vector>

#include "common/leakage/scores.h"
#include "common/leakage/summary.h"
#include "common/matrix/matrix.h"

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
  const TwoMeans found = ClusterInTwo(rows, std::vector<float>{0.8f, 0.6f, 0});
  const std::vector<float>& scores = found.scores;
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
  EXPECT_EQ(found.share_along, sizes[1] / 200);
  for (int64_t j = 0; j < 200; ++j) {
    EXPECT_NEAR(scores[j], SquaredDistance(rows.row(j), centres[0]) - SquaredDistance(rows.row(j), centres[1]), 1e-4);
  }
}

TEST(TwoMeansTest, FindsBothClustersAlongTheDirectionOrAgainstIt) {
  std::vector<uint8_t> labels;
  const Matrix rows = Draw(200, 40, &labels);
  const TwoMeans along = ClusterInTwo(rows, std::vector<float>{1, 0, 0});
  EXPECT_GT(*LeakAuc(along.scores, labels), 0.99);
  EXPECT_NEAR(along.share_along, 0.2, 0.05);
  const TwoMeans against = ClusterInTwo(rows, std::vector<float>{-1, 0, 0});
  EXPECT_LT(*LeakAuc(against.scores, labels), 0.01);
  EXPECT_NEAR(against.share_along, 0.8, 0.05);
}

TEST(TwoMeansTest, OneClusterTellsNothing) {
  const auto tells_nothing = [](ConstMatrixView rows, const std::vector<float>& direction) {
    const TwoMeans found = ClusterInTwo(rows, direction);
    return found.scores == std::vector<float>(rows.rows()) && found.share_along == 0.5;
  };
  EXPECT_TRUE(tells_nothing(Matrix(5, 3), {1, 0, 0}));
  EXPECT_TRUE(tells_nothing(Draw(5, 0), {0, 0, 0}));
  EXPECT_TRUE(tells_nothing(Draw(5, 0), {}));
  EXPECT_TRUE(tells_nothing(Draw(1, 0), {1, 0, 0}));
  EXPECT_TRUE(tells_nothing(Matrix(0, 3), {1, 0, 0}));
}

TEST(TwoMeansTest, StaysFiniteForTheLargestRows) {
  Matrix rows(3, 1);
  rows.row(0)[0] = 3e38f;
  rows.row(1)[0] = -3e38f;
  for (float score : ClusterInTwo(rows, std::vector<float>{1}).scores) {
    EXPECT_TRUE(std::isfinite(score));
  }
}

}  // namespace
}  // namespace splitveil
