#include "common/leakage/positive_system.h"

#include <cmath>
#include <gtest/gtest.h>
#include <vector>

namespace splitveil {
namespace {

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

}  // namespace
}  // namespace splitveil
