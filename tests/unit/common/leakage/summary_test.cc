#include "common/leakage/summary.h"

#include <cmath>
#include <gtest/gtest.h>
#include <vector>

namespace splitveil {
namespace {

TEST(InvertedAucTest, IsTheDistanceFromOneHalf) {
  EXPECT_DOUBLE_EQ(InvertedAuc(0.8), 0.8);
  EXPECT_DOUBLE_EQ(InvertedAuc(0.2), 0.8);
  EXPECT_EQ(InvertedAuc(0.5), 0.5);
  EXPECT_TRUE(std::isnan(InvertedAuc(std::nan(""))));
}

TEST(SummarizeLeakTest, EveryBatchIsInvertedByItself) {
  const LeakSummary summary = SummarizeLeak({0.5, 0.7, 0.3, 0.1});  // Inverted: 0.5, 0.7, 0.7, 0.9.
  EXPECT_DOUBLE_EQ(summary.mean, 0.7);
  EXPECT_DOUBLE_EQ(summary.p95, 0.9);
  EXPECT_EQ(summary.steps, 4);
}

// Now forwards, now backwards: inverted as a whole the mean would be 0.5, and its interval wide.
TEST(SummarizeLeakTest, AnAttackThatChangesItsDirectionLeaksAsMuchAsOneThatKeepsIt) {
  const LeakSummary changing = SummarizeLeak({0.9, 0.1, 0.9, 0.1}), steady = SummarizeLeak({0.9, 0.9, 0.9, 0.9});
  EXPECT_NEAR(changing.mean, 0.9, 1e-15);
  EXPECT_NEAR(changing.mean_ci95, 0, 1e-15);
  EXPECT_NEAR(changing.mean, steady.mean, 1e-15);
  EXPECT_NEAR(changing.p95, steady.p95, 1e-15);
}

TEST(SummarizeLeakTest, StatesTheHalfWidthOfTheInvertedMeansInterval) {
  // 0.9, 0.8, 0.7, 0.6 and 0.5 inverted: sample variance of 1..5 scaled by 0.1, 0.025; standard error sqrt(0.025 / 5).
  const LeakSummary summary = SummarizeLeak({0.1, 0.2, 0.7, 0.4, 0.5});
  EXPECT_NEAR(summary.mean, 0.7, 1e-15);
  EXPECT_NEAR(summary.mean_ci95, 1.959963984540054 * std::sqrt(0.005), 1e-15);
}

TEST(SummarizeLeakTest, HasNoIntervalForOneStep) {
  const LeakSummary summary = SummarizeLeak({0.8});
  EXPECT_EQ(summary.mean_ci95, 0);
  EXPECT_EQ(summary.mean, 0.8);
  EXPECT_EQ(summary.p95, 0.8);
}

TEST(SummarizeLeakTest, IsAllZeroForNoSteps) {
  const LeakSummary summary = SummarizeLeak({});
  EXPECT_EQ(summary.steps, 0);
  EXPECT_EQ(summary.mean, 0);
  EXPECT_EQ(summary.p95, 0);
}

TEST(NearestRankQuantileTest, IsTheSmallestValueWithTheShareAtOrBelowIt) {
  std::vector<double> values;
  for (int i = 20; i >= 1; --i) {
    values.push_back(i);
  }
  EXPECT_EQ(NearestRankQuantile(values, 0.95), 19);
  EXPECT_EQ(NearestRankQuantile(values, 0.951), 20);
  EXPECT_EQ(NearestRankQuantile(values, 0.5), 10);
}

TEST(NearestRankQuantileTest, IsNotMovedByTheRoundingOfShareTimesCount) {
  // 0.95 * n in binary lies above the integer for many n.
  for (int n = 20; n <= 20'000; n += 20) {
    std::vector<double> values(n);
    for (int i = 0; i < n; ++i) {
      values[i] = i + 1;
    }
    ASSERT_EQ(NearestRankQuantile(values, 0.95), n / 20 * 19);
  }
}

TEST(NearestRankQuantileTest, StaysInsideForSharesAtAndBeyondTheEnds) {
  EXPECT_EQ(NearestRankQuantile({3, 1, 2}, 0), 1);
  EXPECT_EQ(NearestRankQuantile({3, 1, 2}, 1), 3);
  EXPECT_EQ(NearestRankQuantile({3, 1, 2}, -1), 1);
  EXPECT_EQ(NearestRankQuantile({3, 1, 2}, 2), 3);
}

TEST(ProgressFigureTest, AnAttackThatRanksEveryPairTheWrongWayIsAPerfectOne) {
  EXPECT_EQ(ProgressFigure("norm", 0), "norm 1.00");
  EXPECT_EQ(ProgressFigure("norm", 0.75), "norm 0.75");
  EXPECT_EQ(ProgressFigure("cosine", 0.5), "cosine 0.50");
}

TEST(NearestRankQuantileTest, IsZeroForNoValues) { EXPECT_EQ(NearestRankQuantile({}, 0.95), 0); }

}  // namespace
}  // namespace splitveil
