#include "tests/statistical/leakage/likelihood_ratio.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>

#include "common/leakage/bounds.h"

namespace splitveil {
namespace {

constexpr double kPi = 3.14159265358979323846;

double Phi(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

TEST(LikelihoodRatioAucTest, IsPhiOfTheDistanceForEqualCovariances) {
  for (double sum_kl : {1e-12, 1e-6, 0.01, 0.25, 1.0, 4.0, 20.0, 200.0, 9000.0}) {
    for (int64_t d : {1, 2, 128, 1600}) {
      EXPECT_NEAR(LikelihoodRatioAuc({d, sum_kl, 1, 0.1, 1, 0.1}), Phi(std::sqrt(sum_kl / 2)), 1e-9) << sum_kl;
    }
  }
}

// Two centred normals on a line are told apart by |x| alone; |x1| / |x0| is half Cauchy.
TEST(LikelihoodRatioAucTest, IsTheArcTangentForTwoScalesInOneDimension) {
  for (double ratio : {1.01, 2.0, 10.0, 1e4}) {
    EXPECT_NEAR(LikelihoodRatioAuc({1, 0, 1, 1, ratio * ratio, 1}), 2 / kPi * std::atan(ratio), 1e-8) << ratio;
  }
}

// In two dimensions |x|^2 is exponential: P(r E1 > E0) = r / (1 + r).
TEST(LikelihoodRatioAucTest, IsTheOddsForTwoScalesInTwoDimensions) {
  for (double ratio : {1.1, 3.0, 100.0}) {
    EXPECT_NEAR(LikelihoodRatioAuc({2, 0, 1, 1, ratio, ratio}), ratio / (1 + ratio), 1e-8) << ratio;
  }
}

TEST(LikelihoodRatioAucTest, DoesNotDependOnWhichClassIsCalledPositive) {
  EXPECT_NEAR(LikelihoodRatioAuc({7, 1, 2, 0.3, 1.5, 0.4}), LikelihoodRatioAuc({7, 1, 1.5, 0.4, 2, 0.3}), 1e-9);
}

TEST(LikelihoodRatioAucTest, DoesNotDependOnTheScale) {
  EXPECT_NEAR(LikelihoodRatioAuc({7, 1e-200, 2e-200, 3e-201, 1e-200, 4e-201}),
              LikelihoodRatioAuc({7, 1, 2, 0.3, 1, 0.4}), 1e-9);
}

TEST(LikelihoodRatioAucTest, NeverExceedsTheoremOne) {
  for (double spread : {1.0, 1.05, 1.3}) {
    for (double distance : {0.01, 0.3, 1.0}) {
      for (int64_t d : {1, 5, 128}) {
        const GaussianClasses classes{d, distance, 1, 0.2, spread, 0.2 * spread};
        EXPECT_LE(LikelihoodRatioAuc(classes), AucBound(SumKl(classes)) + 1e-9);
      }
    }
  }
}

TEST(LikelihoodRatioAucTest, IsOneHalfForEqualClasses) { EXPECT_EQ(LikelihoodRatioAuc({128, 0, 1, 0, 1, 0}), 0.5); }

TEST(LikelihoodRatioAucTest, IsOneForClassesThatDoNotOverlap) {
  EXPECT_EQ(LikelihoodRatioAuc({2, 1, 0, 0, 0, 0}), 1);
  EXPECT_EQ(LikelihoodRatioAuc({2, 0, 1, 0, 1, 1}), 1);
  EXPECT_NEAR(LikelihoodRatioAuc({2, 1e6, 1, 1, 1, 1}), 1, 1e-9);
}

TEST(LikelihoodRatioAucTest, FailsClosedForInvalidInput) {
  EXPECT_EQ(LikelihoodRatioAuc({2, -1, 1, 1, 1, 1}), 1);
  EXPECT_EQ(LikelihoodRatioAuc({2, std::nan(""), 1, 1, 1, 1}), 1);
  EXPECT_EQ(LikelihoodRatioAuc({0, 1, 1, 1, 1, 1}), 1);
}

}  // namespace
}  // namespace splitveil
