#include "common/leakage/summary.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <limits>
#include <numeric>
#include <random>
#include <utility>
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
  EXPECT_EQ(NearestRankQuantile(std::vector<double>{3, 1, 2}, 0), 1);
  EXPECT_EQ(NearestRankQuantile(std::vector<double>{3, 1, 2}, 1), 3);
  EXPECT_EQ(NearestRankQuantile(std::vector<double>{3, 1, 2}, -1), 1);
  EXPECT_EQ(NearestRankQuantile(std::vector<double>{3, 1, 2}, 2), 3);
}

TEST(ProgressFigureTest, AnAttackThatRanksEveryPairTheWrongWayIsAPerfectOne) {
  EXPECT_EQ(ProgressFigure("norm", 0), "norm 1.00");
  EXPECT_EQ(ProgressFigure("norm", 0.75), "norm 0.75");
  EXPECT_EQ(ProgressFigure("cosine", 0.5), "cosine 0.50");
}

TEST(NearestRankQuantileTest, IsZeroForNoValues) { EXPECT_EQ(NearestRankQuantile(std::vector<double>{}, 0.95), 0); }

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

constexpr auto kMost = static_cast<int64_t>(StepSeries::kMost);
constexpr double kWidth = 1.0 / StepSeries::kMost;

// AUCs on both sides of 0.5, as many of them as `steps`.
std::vector<double> DrawAucs(int64_t steps) {
  std::mt19937 draw(5);
  std::normal_distribution<double> normal(0.52, 0.1);
  std::vector<double> aucs;
  for (int64_t i = 0; i < steps; ++i) {
    aucs.push_back(std::min(std::max(normal(draw), 0.0), 1.0));
  }
  return aucs;
}

StepSeries SeriesOf(const std::vector<double>& values) {
  StepSeries series;
  for (const double value : values) {
    series.Add(value);
  }
  return series;
}

TEST(NearestRankQuantileTest, OfRepeatedValuesIsThatOfAllOccurrences) {
  const std::vector<RepeatedValue> repeated = {{0.7, 3}, {0.5, 40}, {0.9}, {0.6, 56}};
  std::vector<double> all;
  for (const RepeatedValue& each : repeated) {
    all.insert(all.end(), static_cast<size_t>(each.count), each.value);
  }
  for (const double q : {0.0, 0.4, 0.41, 0.95, 0.96, 0.961, 0.99, 1.0}) {
    EXPECT_EQ(NearestRankQuantile(repeated, q), NearestRankQuantile(all, q)) << q;
  }
  EXPECT_EQ(NearestRankQuantile(std::vector<RepeatedValue>(), 0.95), 0);
}

TEST(StepSeriesTest, AValueManyTimesIsThatValueThatOften) {
  for (const int64_t times : {int64_t{3}, kMost - 1, 3 * kMost}) {
    StepSeries at_once, one_by_one;
    for (StepSeries* series : {&at_once, &one_by_one}) {
      series->Add(0.3);
      series->Add(0.8);
    }
    at_once.Add(0.6, times);
    for (int64_t i = 0; i < times; ++i) {
      one_by_one.Add(0.6);
    }
    EXPECT_EQ(at_once, one_by_one) << times;
    EXPECT_NEAR(at_once.LeakOf().mean, one_by_one.LeakOf().mean, 1e-12);
    EXPECT_NEAR(at_once.LeakOf().mean_ci95, one_by_one.LeakOf().mean_ci95, 1e-12);
  }
}

TEST(StepSeriesTest, IsExactForAsManyAsItKeeps) {
  for (const int64_t steps : {int64_t{0}, int64_t{1}, int64_t{20}, kMost}) {
    const std::vector<double> aucs = DrawAucs(steps);
    const StepSeries series = SeriesOf(aucs);
    EXPECT_EQ(series.size(), steps);
    EXPECT_EQ(series.latest(), steps == 0 ? 0 : aucs.back());
    EXPECT_EQ(series.Quantile(0.95), NearestRankQuantile(aucs, 0.95));
    const LeakSummary expected = SummarizeLeak(aucs), found = series.LeakOf();
    EXPECT_EQ(found.mean, expected.mean);
    EXPECT_EQ(found.mean_ci95, expected.mean_ci95);
    EXPECT_EQ(found.p95, expected.p95);
    EXPECT_EQ(found.steps, steps);
  }
}

TEST(StepSeriesTest, OfMoreQuantilesAreTooHighByLessThanABinAndMeansExact) {
  for (const int64_t steps : {kMost + 1, 3 * kMost}) {
    const std::vector<double> aucs = DrawAucs(steps);
    const StepSeries series = SeriesOf(aucs);
    EXPECT_EQ(series.size(), steps);
    EXPECT_EQ(series.latest(), aucs.back());
    for (const double q : {0.0, 0.05, 0.5, 0.95, 1.0}) {
      const double exact = NearestRankQuantile(aucs, q);
      EXPECT_GE(series.Quantile(q), exact) << q;
      EXPECT_LE(series.Quantile(q), exact + kWidth) << q;
    }
    const LeakSummary expected = SummarizeLeak(aucs), found = series.LeakOf();
    EXPECT_NEAR(found.mean, expected.mean, 1e-12);
    EXPECT_NEAR(found.mean_ci95, expected.mean_ci95, 1e-12);
    EXPECT_GE(found.p95, expected.p95);
    EXPECT_LE(found.p95, expected.p95 + kWidth);
    EXPECT_EQ(found.steps, steps);
  }
}

// A perfect attack in either direction, and none at all.
TEST(StepSeriesTest, TheEndsAndTheMiddleStayThereInBins) {
  for (const auto& [auc, leak] : {std::pair{1.0, 1.0}, {0.0, 1.0}, {0.5, 0.5 + kWidth}}) {
    const StepSeries series = SeriesOf(std::vector<double>(2 * kMost, auc));
    EXPECT_EQ(series.LeakOf().p95, leak) << auc;
    EXPECT_DOUBLE_EQ(series.LeakOf().mean, InvertedAuc(auc));
    EXPECT_NEAR(series.LeakOf().mean_ci95, 0, 1e-15);
  }
}

TEST(StepSeriesTest, WhatIsNoBoundCountsAsOne) {
  const double none = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ((StepSeries{0.5, none}).Quantile(1), 1);
  EXPECT_EQ((StepSeries{0.5, 1.5}).Quantile(1), 1);
  EXPECT_EQ((StepSeries{-1}).Quantile(1), 0);
}

}  // namespace
}  // namespace splitveil
