#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <random>

#include "label_party/marvell/marvell_solver.h"
#include "tests/unit/label_party/marvell/marvell_oracle.h"

namespace splitveil {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(LeastMarvellPowerTest, IsTheDistanceOverTheTargetForClassesWithoutSpread) {
  const auto least = LeastMarvellPower({128, 0, 0, 2, 0.5, 0}, 0.25);
  ASSERT_TRUE(least.ok());
  EXPECT_NEAR(least->power, 8, 1e-8);
}

TEST(LeastMarvellPowerTest, ReachesTheTargetAndNoLessPowerDoes) {
  std::mt19937_64 random(4);  // NOLINT(cert-msc51-cpp): a fixed seed on purpose.
  std::uniform_real_distribution<double> exponent(-6, 2);
  for (int trial = 0; trial < 500; ++trial) {
    MarvellProblem q;
    q.d = int64_t{1} << (random() % 11);
    q.g = std::pow(10, exponent(random));
    q.u = random() % 8 == 0 ? 0 : q.g * std::pow(10, exponent(random));
    q.v = random() % 8 == 0 ? 0 : q.g * std::pow(10, exponent(random));
    q.p = static_cast<double>(random() % 101) / 100;
    const double target = std::pow(10, exponent(random) / 2);
    const auto least = LeastMarvellPower(q, target);
    ASSERT_TRUE(least.ok()) << least.status();
    EXPECT_LE(least->solution.sum_kl, target);
    if (least->power > 0) {
      EXPECT_GE(least->solution.sum_kl, target * (1 - 1e-9))
          << q.d << " " << q.u << " " << q.v << " " << q.g << " " << q.p << " " << target << " P " << least->power;
      q.power = least->power * (1 - 1e-6);
      EXPECT_GT(SolveMarvell(q)->sum_kl, target);
      q.power = least->power;
      EXPECT_EQ(SolveMarvell(q)->sum_kl, least->solution.sum_kl);
    }
  }
}

TEST(LeastMarvellPowerTest, WorksOverTheExponentRange) {
  for (int exponent : {-900, -300, 300, 900}) {
    const double unit = std::ldexp(1.0, exponent);
    const auto least = LeastMarvellPower({16, 0.1 * unit, 0.2 * unit, unit, 0.3, 0}, 0.1);
    ASSERT_TRUE(least.ok());
    EXPECT_NEAR(least->power / unit, LeastMarvellPower({16, 0.1, 0.2, 1, 0.3, 0}, 0.1)->power, 1e-6);
  }
}

TEST(LeastMarvellPowerTest, IsZeroWhereTheClassesAreCloseEnoughAlready) {
  const auto least = LeastMarvellPower({128, 1, 1, 0.1, 0.5, 0}, 0.25);
  ASSERT_TRUE(least.ok());
  EXPECT_EQ(least->power, 0);
  EXPECT_EQ(least->solution.lambda1_neg, 0);
}

TEST(LeastMarvellPowerTest, IgnoresThePowerOfTheProblem) {
  EXPECT_EQ(LeastMarvellPower({16, 0.1, 0.2, 1, 0.3, 7}, 0.1)->power,
            LeastMarvellPower({16, 0.1, 0.2, 1, 0.3, 0}, 0.1)->power);
}

TEST(LeastMarvellPowerTest, FailsForATargetThatIsNotPositiveAndFinite) {
  for (double target : {0.0, -1.0, kNan, kInfinity}) {
    EXPECT_EQ(LeastMarvellPower({2, 1, 1, 1, 0.5, 0}, target).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(LeastMarvellPowerTest, FailsForAProblemOutOfRange) {
  EXPECT_EQ(LeastMarvellPower({2, -1, 1, 1, 0.5, 0}, 1).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(LeastMarvellPowerTest, FailsWhereThePowerLeavesTheRangeOfADouble) {
  EXPECT_EQ(LeastMarvellPower({2, 1, 1, 1e300, 0.5, 0}, 1e-20).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(SumKlForDetectionErrorTest, IsTheSquareOfTwoMinusFourTimesTheBound) {
  EXPECT_EQ(*SumKlForDetectionError(0), 4);
  EXPECT_EQ(*SumKlForDetectionError(0.25), 1);
}

TEST(SumKlForDetectionErrorTest, FailsOutsideItsRange) {
  for (double bound : {-0.01, 0.5, 1.0, kNan}) {
    EXPECT_EQ(SumKlForDetectionError(bound).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace splitveil
