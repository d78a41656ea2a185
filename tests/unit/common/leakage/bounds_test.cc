#include "common/leakage/bounds.h"

#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <vector>

#include "common/leakage/leak_figures.h"

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

TEST(DetectionErrorBoundTest, IsOneHalfWithoutDivergence) { EXPECT_EQ(DetectionErrorBound(0), 0.5); }

TEST(DetectionErrorBoundTest, InvertsTheTargetOfTheDetectionErrorForm) {
  for (double bound : {0.0, 0.1, 0.25, 0.4, 0.499}) {
    EXPECT_NEAR(DetectionErrorBound((2 - 4 * bound) * (2 - 4 * bound)), bound, 1e-15);
  }
}

TEST(DetectionErrorBoundTest, IsNeverNegative) {
  EXPECT_EQ(DetectionErrorBound(5), 0);
  EXPECT_EQ(DetectionErrorBound(kInfinity), 0);
}

TEST(DetectionErrorBoundTest, FailsClosedForNegativeAndForNotANumber) {
  EXPECT_EQ(DetectionErrorBound(-1), 0);
  EXPECT_EQ(DetectionErrorBound(kNan), 0);
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

// An AUC of logit 1 with a standard error of 0.1 on that scale; its limits by the normal quantiles of tables.
TEST(CertainAucTest, IsTheNormalLimitOnTheLogitScaleInEitherDirection) {
  const auto share = [](double logit) { return 1 / (1 + std::exp(-logit)); };
  const double auc = share(1), low = share(1 - 0.19600), high = share(1 + 0.19600);
  EXPECT_NEAR(CertainAuc(auc, low, high), share(1 - 0.37190), 1e-5);
  EXPECT_NEAR(CertainAuc(1 - auc, 1 - high, 1 - low), share(1 - 0.37190), 1e-5);  // Read in reverse.
}

// Where every pair came out right, the limits are those of a binomial share: 0.025^(1/n) and 0.0001^(1/n).
TEST(CertainAucTest, IsTheBinomialLimitWhereEveryPairCameOutRight) {
  EXPECT_NEAR(CertainAuc(1, std::pow(0.025, 1.0 / 30), 1), std::pow(0.0001, 1.0 / 30), 1e-12);
  EXPECT_NEAR(CertainAuc(0, 0, 1 - std::pow(0.025, 1.0 / 30)), std::pow(0.0001, 1.0 / 30), 1e-12);
}

// Scores that read what is allowed and no more, as an honest run's worst case does: 2,000 samples, none beyond a limit
// that one in 10,000 passes (two or more would be with probability 0.018), while the 95% limit stops some 50.
TEST(CertainAucTest, IsPassedNextToNeverByWhatReadsExactlyTheBound) {
  constexpr double kMu = 0.7416;  // AUC 0.700.
  const double bound = GaussianAucBound(kMu * kMu);
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  int beyond = 0, beyond_95 = 0;
  std::vector<float> scores(600);
  std::vector<uint8_t> labels(scores.size());
  for (int sample = 0; sample < 2000; ++sample) {
    for (size_t i = 0; i < scores.size(); ++i) {
      labels[i] = i % 3 == 0 ? 1 : 0;
      scores[i] = normal(random) + static_cast<float>(labels[i] * kMu);
    }
    const Estimate auc = MeasureLeak(scores, labels)->auc;
    beyond += CertainAuc(auc.value, auc.low, auc.high) > bound ? 1 : 0;
    beyond_95 += auc.low > bound ? 1 : 0;
  }
  EXPECT_LE(beyond, 1);
  EXPECT_GT(beyond_95, 25);
  EXPECT_LT(beyond_95, 80);
}

TEST(ExceedsGaussianAucBoundTest, HasATolerance) {
  EXPECT_TRUE(ExceedsGaussianAucBound(0.611, 0.605));
  EXPECT_FALSE(ExceedsGaussianAucBound(0.609, 0.605));
}

TEST(ExceedsGaussianAucBoundTest, NothingExceedsWhatIsNotBoundedOrNotMeasured) {
  EXPECT_FALSE(ExceedsGaussianAucBound(0.99, std::nan("")));
  EXPECT_FALSE(ExceedsGaussianAucBound(CertainAuc(std::nan(""), std::nan(""), std::nan("")), 0.6));
}

}  // namespace
}  // namespace splitveil
