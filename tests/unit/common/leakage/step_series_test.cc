// The figures of many steps against those of all their values.
#include "common/leakage/step_series.h"

#include <algorithm>
#include <cstdint>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <utility>
#include <vector>

namespace splitveil {
namespace {

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
