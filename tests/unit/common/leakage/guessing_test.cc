#include "common/leakage/guessing.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "common/leakage/summary.h"

namespace splitveil {
namespace {

// The AUC of a random score: ranks drawn without replacement.
double GuessedAuc(int positives, int negatives, std::mt19937_64& random) {
  std::vector<int> ranks(positives + negatives);
  std::iota(ranks.begin(), ranks.end(), 1);
  double sum = 0;
  for (int i = 0; i < positives; ++i) {
    std::uniform_int_distribution<size_t> pick(i, ranks.size() - 1);
    std::swap(ranks[i], ranks[pick(random)]);
    sum += ranks[i];
  }
  const double wins = sum - 0.5 * positives * (positives + 1);
  return wins / (static_cast<double>(positives) * negatives);
}

// What a run of 20,000 batches would show, by the function that summarises every run.
LeakSummary Sampled(int positives, int negatives) {
  std::mt19937_64 random(7);  // NOLINT(cert-msc51-cpp): a fixed seed on purpose.
  std::vector<double> aucs(20000);
  for (double& auc : aucs) {
    auc = GuessedAuc(positives, negatives, random);
  }
  return SummarizeLeak(aucs);
}

TEST(GuessingTest, AgreesWithSampledGuesses) {
  // Standard error of the sampled quantile: 0.0004 at the largest batch, 0.003 at the smallest; of the mean: a quarter.
  const std::pair<int, int> batches[] = {{256, 768}, {20, 180}, {10, 10}};
  const double p95_error[] = {0.0015, 0.004, 0.01}, mean_error[] = {0.0005, 0.001, 0.003};
  for (int i = 0; i < 3; ++i) {
    const auto [positives, negatives] = batches[i];
    const LeakSummary sampled = Sampled(positives, negatives);
    EXPECT_NEAR(GuessingOver(positives, negatives).p95, sampled.p95, p95_error[i]) << positives;
    EXPECT_NEAR(GuessingOver(positives, negatives).mean, sampled.mean, mean_error[i]) << positives;
  }
}

TEST(GuessingTest, IsTheClosedForm) {
  const double deviation = std::sqrt(1025.0 / (12 * 256 * 768));
  EXPECT_DOUBLE_EQ(GuessingOver(256, 768).mean, 0.5 + deviation * std::sqrt(2 / std::acos(-1)));
  EXPECT_NEAR(GuessingOver(256, 768).mean, 0.517, 0.0005);
  EXPECT_NEAR(GuessingOver(256, 768).p95, 0.541, 0.0005);  // As the policy's documentation gives it.
}

TEST(GuessingTest, IsSymmetricAndFallsWithTheBatch) {
  EXPECT_DOUBLE_EQ(GuessingOver(30, 70).p95, GuessingOver(70, 30).p95);
  EXPECT_DOUBLE_EQ(GuessingOver(30, 70).mean, GuessingOver(70, 30).mean);
  EXPECT_GT(GuessingOver(30, 70).p95, GuessingOver(300, 700).p95);
  EXPECT_GT(GuessingOver(30, 70).mean, GuessingOver(300, 700).mean);
}

TEST(GuessingTest, OneClassAloneOrAFewExamplesTellNothing) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  for (const Guessing& guessing : {GuessingOver(0, 100), GuessingOver(100, 0), GuessingOver(kNan, 10)}) {
    EXPECT_EQ(guessing.mean, 1);
    EXPECT_EQ(guessing.p95, 1);
  }
  EXPECT_EQ(GuessingOver(1, 1).p95, 1);
  EXPECT_LE(GuessingOver(1, 1).mean, 1);
}

}  // namespace
}  // namespace splitveil
