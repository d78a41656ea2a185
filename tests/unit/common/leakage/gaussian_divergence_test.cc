#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <random>

#include "common/leakage/bounds.h"

namespace splitveil {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// KL(N(m, a) || N(0, b)) in one dimension, the textbook's.
double Kl(double m_squared, double a, double b) { return 0.5 * ((a + m_squared) / b - 1 + std::log(b / a)); }

TEST(SumKlTest, IsTheSumOfTheTextbooksDivergencesOverTheAxes) {
  std::mt19937_64 random(3);  // NOLINT(cert-msc51-cpp): a fixed seed on purpose.
  std::uniform_real_distribution<double> uniform(0.1, 3);
  for (int trial = 0; trial < 1000; ++trial) {
    const GaussianClasses c{1 + static_cast<int64_t>(random() % 50),
                            uniform(random),
                            uniform(random),
                            uniform(random),
                            uniform(random),
                            uniform(random)};
    const double along = Kl(c.dg_squared, c.along_neg, c.along_pos) + Kl(c.dg_squared, c.along_pos, c.along_neg);
    const double across = Kl(0, c.across_neg, c.across_pos) + Kl(0, c.across_pos, c.across_neg);
    const double expected = along + static_cast<double>(c.d - 1) * across;
    EXPECT_NEAR(SumKl(c), expected, 1e-12 * (1 + expected));
  }
}

TEST(SumKlTest, IsExactlyZeroForEqualClasses) { EXPECT_EQ(SumKl({1600, 0, 0.3, 0.1, 0.3, 0.1}), 0); }

TEST(SumKlTest, DoesNotCancelForNearlyEqualClasses) {
  // (b0-b1)^2 / (b0 b1) = e^2 / (1 + e); the difference of traces would leave none of these digits.
  const double e = 0x1p-30;
  EXPECT_NEAR(SumKl({3, 0, 1, 1, 1, 1 + e}) / (e * e / (1 + e)), 1, 1e-12);
}

TEST(SumKlTest, StaysInRangeWhereProductsOfVariancesDoNot) {
  EXPECT_NEAR(SumKl({2, 1e200, 1e200, 1e200, 1e200, 2e200}), 1 + 0.25, 1e-12);
  EXPECT_NEAR(SumKl({2, 1e-200, 1e-200, 1e-200, 1e-200, 2e-200}), 1 + 0.25, 1e-12);
}

TEST(SumKlTest, CountsNothingForTwoVariancesOfZero) { EXPECT_EQ(SumKl({5, 2, 1, 0, 1, 0}), 2); }

TEST(SumKlTest, IgnoresTheAxesAcrossInOneDimension) { EXPECT_EQ(SumKl({1, 2, 1, 0, 1, 7}), 2); }

TEST(SumKlTest, IsInfiniteForZeroAgainstPositiveVariance) {
  EXPECT_EQ(SumKl({2, 0, 1, 0, 1, 1}), kInfinity);
  EXPECT_EQ(SumKl({2, 0, 0, 1, 1, 1}), kInfinity);
}

TEST(SumKlTest, IsInfiniteForMeansApartWithoutVariance) { EXPECT_EQ(SumKl({1, 1e-300, 0, 0, 0, 0}), kInfinity); }

TEST(SumKlTest, IsInfiniteWhereTheRatioLeavesTheRangeOfADouble) {
  EXPECT_EQ(SumKl({2, 0, 1, 1e-300, 1, 1e300}), kInfinity);
}

TEST(SumKlTest, FailsClosedForNotANumberAndNegativeInput) {
  EXPECT_EQ(SumKl({1, kNan, 1, 1, 1, 1}), kInfinity);
  EXPECT_EQ(SumKl({1, -1, 1, 1, 1, 1}), kInfinity);
  EXPECT_EQ(SumKl({1, 1, -1, 1, 1, 1}), kInfinity);
  EXPECT_EQ(SumKl({1, 1, 1, kNan, 1, 1}), kInfinity);
  EXPECT_EQ(SumKl({0, 1, 1, 1, 1, 1}), kInfinity);
  EXPECT_EQ(SumKl({1, kInfinity, kInfinity, 1, kInfinity, 1}), kInfinity);
}

}  // namespace
}  // namespace splitveil
