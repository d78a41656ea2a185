#include "deploy/operator/records/guessing.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

namespace splitveil {
namespace {

// 0.5 + |AUC - 0.5| of a random score: ranks drawn without replacement.
double GuessedLeak(int positives, int negatives, std::mt19937_64& random) {
  std::vector<int> ranks(positives + negatives);
  std::iota(ranks.begin(), ranks.end(), 1);
  double sum = 0;
  for (int i = 0; i < positives; ++i) {
    std::uniform_int_distribution<size_t> pick(i, ranks.size() - 1);
    std::swap(ranks[i], ranks[pick(random)]);
    sum += ranks[i];
  }
  const double wins = sum - 0.5 * positives * (positives + 1);
  return 0.5 + std::abs(wins / (static_cast<double>(positives) * negatives) - 0.5);
}

double SampledP95(int positives, int negatives) {
  std::mt19937_64 random(7);  // NOLINT(cert-msc51-cpp): a fixed seed on purpose.
  std::vector<double> leaks(20000);
  for (double& leak : leaks) {
    leak = GuessedLeak(positives, negatives, random);
  }
  return NearestRankQuantile(leaks, 0.95);
}

TEST(GuessingTest, AgreesWithSampledGuesses) {
  // Standard error of the sampled quantile: 0.0004 at the largest batch, 0.003 at the smallest.
  EXPECT_NEAR(GuessingAucP95(256, 768), SampledP95(256, 768), 0.0015);
  EXPECT_NEAR(GuessingAucP95(20, 180), SampledP95(20, 180), 0.004);
  EXPECT_NEAR(GuessingAucP95(10, 10), SampledP95(10, 10), 0.01);
}

TEST(GuessingTest, IsTheFigureThatThePolicysDocumentationGives) {
  EXPECT_NEAR(GuessingAucP95(256, 768), 0.541, 0.0005);
}

TEST(GuessingTest, IsSymmetricAndFallsWithTheBatch) {
  EXPECT_DOUBLE_EQ(GuessingAucP95(30, 70), GuessingAucP95(70, 30));
  EXPECT_GT(GuessingAucP95(30, 70), GuessingAucP95(300, 700));
}

TEST(GuessingTest, OneClassAloneOrAFewExamplesTellNothing) {
  EXPECT_EQ(GuessingAucP95(0, 100), 1);
  EXPECT_EQ(GuessingAucP95(100, 0), 1);
  EXPECT_EQ(GuessingAucP95(1, 1), 1);
  EXPECT_EQ(GuessingAucP95(std::numeric_limits<double>::quiet_NaN(), 10), 1);
}

RunRecords RunOfBatches(const std::vector<int64_t>& sizes, double share) {
  RunRecords run;
  PartyRecords& party = run.parties.emplace_back();
  party.record.run.role = "label_party";
  for (size_t i = 0; i < sizes.size(); ++i) {
    const auto step = static_cast<int64_t>(i);
    party.steps.push_back({step, 0, step, sizes[i], 0.5, 0.1, 0, 0});
    ProtectionRow row = {step, "none", 0, 0, 0, share, 0, 0, 0, 0, 0, 0, 1, v1::RELEASE};
    party.protections.push_back(row);
  }
  return run;
}

TEST(GuessingTest, OfARunIsThatOfItsMedianBatch) {
  EXPECT_DOUBLE_EQ(GuessingAucP95(RunOfBatches({1024, 1024, 100}, 0.25)), GuessingAucP95(256, 768));
}

TEST(GuessingTest, TakesTheShareOfPositivesFromTheEpochsWhereNoStepTells) {
  RunRecords run = RunOfBatches({1024}, std::numeric_limits<double>::quiet_NaN());
  EXPECT_TRUE(std::isnan(GuessingAucP95(run)));
  EpochLeakRow row;
  row.examples = 4000;
  row.positives = 1000;
  run.parties[0].epoch_leaks.push_back(row);
  EXPECT_DOUBLE_EQ(GuessingAucP95(run), GuessingAucP95(256, 768));
}

TEST(GuessingTest, OfARunWithoutStepsIsUnknown) { EXPECT_TRUE(std::isnan(GuessingAucP95(RunOfBatches({}, 0.25)))); }

}  // namespace
}  // namespace splitveil
