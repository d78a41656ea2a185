#include "common/leakage/hint_scores.h"

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
