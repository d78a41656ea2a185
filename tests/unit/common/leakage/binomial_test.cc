#include "common/leakage/binomial.h"

#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>

namespace splitveil {
namespace {

// By the definition, with binomial coefficients.
double BruteForceCdf(int64_t n, double p, int64_t k) {
  double sum = 0;
  double coefficient = 1;
  for (int64_t i = 0; i <= k; ++i) {
    sum += coefficient * std::pow(p, i) * std::pow(1 - p, n - i);
    coefficient *= static_cast<double>(n - i) / static_cast<double>(i + 1);
  }
  return sum;
}

TEST(BinomialCdfTest, IsTheSumOfItsMasses) {
  for (int64_t n : {1, 2, 7, 40}) {
    for (double p : {0.001, 0.01, 0.3, 0.5, 0.97}) {
      for (int64_t k = 0; k < n; ++k) {
        EXPECT_NEAR(BinomialCdf(n, p, k), BruteForceCdf(n, p, k), 1e-12) << n << " " << p << " " << k;
      }
    }
  }
}

TEST(BinomialCdfTest, CertainOutcomes) {
  EXPECT_EQ(BinomialCdf(10, 0.3, -1), 0);
  EXPECT_EQ(BinomialCdf(10, 0.3, 10), 1);
  EXPECT_EQ(BinomialCdf(0, 0.3, 0), 1);
  EXPECT_EQ(BinomialCdf(10, 0, 0), 1);
  EXPECT_EQ(BinomialCdf(10, 1, 9), 0);
}

TEST(BinomialCdfTest, FarTailsOfManyTrialsNeitherOverflowNorHang) {
  EXPECT_EQ(BinomialCdf(10'000'000, 0.5, 10), 0);
  EXPECT_EQ(BinomialCdf(10'000'000, 1e-6, 1'000'000), 1);
  // Median of a symmetric distribution: one half and half the central mass, 1 / sqrt(2 pi n / 4).
  EXPECT_NEAR(BinomialCdf(1'000'000, 0.5, 500'000), 0.5 + 0.5 / std::sqrt(2 * M_PI * 250'000), 1e-9);
}

TEST(BinomialLimitTest, NoSuccessHasTheClosedForm) {
  EXPECT_NEAR(UpperBinomialLimit(0, 10, 0.025), 1 - std::pow(0.025, 0.1), 1e-12);
  EXPECT_EQ(LowerBinomialLimit(0, 10, 0.025), 0);
}

TEST(BinomialLimitTest, NothingButSuccessesIsItsMirror) {
  EXPECT_NEAR(LowerBinomialLimit(10, 10, 0.025), std::pow(0.025, 0.1), 1e-12);
  EXPECT_EQ(UpperBinomialLimit(10, 10, 0.025), 1);
}

// R 4.2: binom.test(7, 20)$conf.int is 0.1539092 0.5921885.
TEST(BinomialLimitTest, EqualsTheReference) {
  EXPECT_NEAR(LowerBinomialLimit(7, 20, 0.025), 0.1539092, 5e-7);
  EXPECT_NEAR(UpperBinomialLimit(7, 20, 0.025), 0.5921885, 5e-7);
}

TEST(BinomialLimitTest, LeavesExactlyTheRiskInTheTail) {
  for (int64_t successes : {1, 50, 999}) {
    EXPECT_NEAR(BinomialCdf(1000, UpperBinomialLimit(successes, 1000, 0.0125), successes), 0.0125, 1e-9);
    EXPECT_NEAR(1 - BinomialCdf(1000, LowerBinomialLimit(successes, 1000, 0.0125), successes - 1), 0.0125, 1e-9);
  }
}

}  // namespace
}  // namespace splitveil
