#include "common/leakage/bounds.h"

#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <limits>

namespace splitveil {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(AucBoundTest, IsOneHalfWithoutDivergence) { EXPECT_EQ(AucBound(0), 0.5); }

TEST(AucBoundTest, IsThatOfTheoremOne) {
  EXPECT_DOUBLE_EQ(AucBound(0.25), 0.5 + 0.25 - 0.03125);
  EXPECT_DOUBLE_EQ(AucBound(1), 0.875);
}

TEST(AucBoundTest, ReachesOneAtFourWithoutAStep) { EXPECT_NEAR(AucBound(4 - 1e-9), 1, 1e-9); }

TEST(AucBoundTest, IsOneFromFourOn) {
  EXPECT_EQ(AucBound(4), 1);
  EXPECT_EQ(AucBound(1e300), 1);
  EXPECT_EQ(AucBound(kInfinity), 1);
}

TEST(AucBoundTest, FailsClosedForNegativeAndForNotANumber) {
  EXPECT_EQ(AucBound(-1e-300), 1);
  EXPECT_EQ(AucBound(kNan), 1);
}

TEST(GaussianAucBoundTest, IsPhiOfTheRootOfHalfTheDivergence) {
  EXPECT_EQ(GaussianAucBound(0), 0.5);
  EXPECT_NEAR(GaussianAucBound(2), 0.8413447460685429, 1e-12);  // Phi(1).
  EXPECT_NEAR(GaussianAucBound(8), 0.9772498680518208, 1e-12);  // Phi(2).
  EXPECT_EQ(GaussianAucBound(kInfinity), 1);
}

TEST(GaussianAucBoundTest, NeverExceedsTheBoundOfTheoremOne) {
  for (double sum_kl = 0; sum_kl < 4; sum_kl += 0.01) {
    EXPECT_LE(GaussianAucBound(sum_kl), AucBound(sum_kl)) << sum_kl;
  }
}

TEST(GaussianAucBoundTest, FailsClosedForNegativeAndForNotANumber) {
  EXPECT_EQ(GaussianAucBound(-1), 1);
  EXPECT_EQ(GaussianAucBound(kNan), 1);
}

}  // namespace
}  // namespace splitveil
