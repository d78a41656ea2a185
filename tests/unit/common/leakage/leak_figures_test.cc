#include "common/leakage/leak_figures.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <vector>

namespace splitveil {
namespace {

struct Sample {
  std::vector<float> scores;
  std::vector<uint8_t> labels;
};

// Normal scores, positives shifted; rounded to multiples of `grain` where it is positive.
Sample Draw(int negatives, int positives, double shift, double grain = 0) {
  std::mt19937_64 random(5);  // NOLINT(cert-msc51-cpp): a fixed seed on purpose.
  std::normal_distribution<double> normal;
  Sample sample;
  for (int i = 0; i < negatives + positives; ++i) {
    const bool positive = i < positives;
    const double score = normal(random) + (positive ? shift : 0);
    sample.scores.push_back(static_cast<float>(grain > 0 ? std::round(score / grain) * grain : score));
    sample.labels.push_back(positive ? 1 : 0);
  }
  return sample;
}

double Won(float positive, float negative) { return positive > negative ? 1 : positive == negative ? 0.5 : 0; }

// AUC and DeLong's interval from all pairs, as the paper defines them.
Estimate BruteForceAuc(const Sample& sample) {
  std::vector<float> positives;
  std::vector<float> negatives;
  for (size_t i = 0; i < sample.scores.size(); ++i) {
    (sample.labels[i] == 1 ? positives : negatives).push_back(sample.scores[i]);
  }
  const auto component_variance = [](const std::vector<float>& of, const std::vector<float>& over, auto won) {
    std::vector<double> components;
    double mean = 0;
    for (float own : of) {
      double component = 0;
      for (float other : over) {
        component += won(own, other) / static_cast<double>(over.size());
      }
      components.push_back(component);
      mean += component / static_cast<double>(of.size());
    }
    double variance = 0;
    for (double component : components) {
      variance += (component - mean) * (component - mean) / static_cast<double>(of.size() - 1);
    }
    return std::pair<double, double>(mean, variance / static_cast<double>(of.size()));
  };
  const auto [auc, first] = component_variance(positives, negatives, [](float p, float n) { return Won(p, n); });
  const auto [same, second] = component_variance(negatives, positives, [](float n, float p) { return Won(p, n); });
  EXPECT_NEAR(auc, same, 1e-12);
  const double half = 1.959963984540054 * std::sqrt(first + second) / (auc * (1 - auc));
  const double logit = std::log(auc / (1 - auc));
  return {auc, 1 / (1 + std::exp(half - logit)), 1 / (1 + std::exp(-half - logit))};
}

void ExpectNear(const Estimate& found, const Estimate& expected) {
  EXPECT_NEAR(found.value, expected.value, 1e-10);
  EXPECT_NEAR(found.low, expected.low, 1e-10);
  EXPECT_NEAR(found.high, expected.high, 1e-10);
}

TEST(MeasureLeakTest, AucAndIntervalAreThoseOfAllPairs) {
  for (double shift : {-1.0, 0.0, 0.7, 2.0}) {
    const Sample sample = Draw(90, 50, shift);
    const auto figures = MeasureLeak(sample.scores, sample.labels);
    ASSERT_TRUE(figures.ok()) << figures.status();
    ExpectNear(figures->auc, BruteForceAuc(sample));
    EXPECT_EQ(figures->examples, 140);
    EXPECT_EQ(figures->positives, 50);
  }
}

TEST(MeasureLeakTest, TiesCountHalf) {
  const Sample sample = Draw(60, 50, 0.5, 1.0);
  ExpectNear(MeasureLeak(sample.scores, sample.labels)->auc, BruteForceAuc(sample));
}

TEST(MeasureLeakTest, PerfectSeparationKeepsALowerLimit) {
  const std::vector<float> scores = {1, 2, 3, 4, 5};
  const auto up = MeasureLeak(scores, std::vector<uint8_t>{0, 0, 0, 1, 1});
  EXPECT_EQ(up->auc.value, 1);
  // (1 - A)^2 = z^2 A (1 - A) (1 + 1.5 ((1 - A) / (2 - A) + A / (1 + A))) / 6, by hand with bisection.
  EXPECT_NEAR(up->auc.low, 0.4389124, 1e-6);
  EXPECT_EQ(up->auc.high, 1);
  const auto down = MeasureLeak(scores, std::vector<uint8_t>{1, 1, 0, 0, 0});
  EXPECT_EQ(down->auc.value, 0);
  EXPECT_EQ(down->auc.low, 0);
  EXPECT_NEAR(down->auc.high, 1 - up->auc.low, 1e-12);
}

// 95% limits of few positives: Monte Carlo, 4,000 samples each, a standard error of 0.0035. DeLong's, from the sample's
// own variance, hold for 0.77 of 3 positives at AUC 0.92 (3,000 samples).
TEST(MeasureLeakTest, IntervalsOfFewPositivesHoldTheTruth) {
  for (const int positives : {3, 10, 49}) {
    for (const double shift : {0.0, 0.7, 2.0}) {
      std::mt19937_64 random(17);  // NOLINT(cert-msc51-cpp): a fixed seed on purpose.
      std::normal_distribution<float> normal;
      const double truth = 0.5 * std::erfc(-shift / 2);
      int held = 0;
      constexpr int kSamples = 4000;
      std::vector<float> scores(static_cast<size_t>(200 + positives));
      std::vector<uint8_t> labels(scores.size());
      std::fill_n(labels.begin(), positives, 1);
      for (int sample = 0; sample < kSamples; ++sample) {
        for (size_t i = 0; i < scores.size(); ++i) {
          scores[i] = normal(random) + (labels[i] != 0 ? static_cast<float>(shift) : 0);
        }
        const Estimate auc = MeasureLeak(scores, labels)->auc;
        held += auc.low <= truth && truth <= auc.high;
      }
      EXPECT_GT(held, 0.93 * kSamples) << positives << " positives, AUC " << truth << ": " << held;
    }
  }
}

TEST(MeasureLeakTest, ConstantScoresTellNothingAndAreNotCertain) {
  const auto figures = MeasureLeak(std::vector<float>(50, 1.0f), Draw(30, 20, 0).labels);
  EXPECT_EQ(figures->auc.value, 0.5);
  EXPECT_LT(figures->auc.low, 0.4);
  EXPECT_GT(figures->auc.high, 0.6);
  // The diagonal: a threshold among the ties, drawn at random.
  EXPECT_NEAR(figures->tpr_at_1_percent_fpr.value, 0.01, 1e-12);
  EXPECT_NEAR(figures->tpr_at_01_percent_fpr.value, 0.001, 1e-12);
}

TEST(MeasureLeakTest, OnePositiveGivesAFiniteInterval) {
  const auto figures = MeasureLeak(std::vector<float>{1, 2, 3, 4}, std::vector<uint8_t>{0, 0, 1, 0});
  EXPECT_NEAR(figures->auc.value, 2.0 / 3, 1e-12);
  EXPECT_LT(figures->auc.low, 0.3);
  EXPECT_GT(figures->auc.high, 0.9);
  EXPECT_EQ(figures->positives, 1);
}

// 2000 negatives score 1 to 2000. Of 100 positives 30 lie above all, 20 more above all but 20, the others among them.
TEST(MeasureLeakTest, TruePositiveRatesAtTheirThresholds) {
  Sample sample;
  for (int i = 1; i <= 2000; ++i) {
    sample.scores.push_back(static_cast<float>(i));
    sample.labels.push_back(0);
  }
  for (int i = 0; i < 100; ++i) {
    sample.scores.push_back(i < 30 ? 3000.0f : i < 50 ? 1980.5f : 1000.5f);
    sample.labels.push_back(1);
  }
  const auto figures = MeasureLeak(sample.scores, sample.labels);
  EXPECT_NEAR(figures->tpr_at_1_percent_fpr.value, 0.5, 1e-12);
  EXPECT_NEAR(figures->tpr_at_01_percent_fpr.value, 0.3, 1e-12);
  EXPECT_LT(figures->tpr_at_1_percent_fpr.low, 0.3);  // The threshold may be that of 10 negatives just as well.
  EXPECT_GT(figures->tpr_at_1_percent_fpr.low, 0.15);
  EXPECT_LT(figures->tpr_at_1_percent_fpr.high, 0.65);
}

// Two scores that say nothing: one example in fifty has the higher one. The rate at 1% is 1%, found by splitting ties
// at random, and its limit is not that of all examples with the lower score.
TEST(MeasureLeakTest, ALimitOfATruePositiveRateSplitsEqualScores) {
  std::mt19937_64 random(3);
  int outside = 0;
  double highest = 0;
  for (int run = 0; run < 400; ++run) {
    std::vector<float> scores(4000);
    std::vector<uint8_t> labels(4000);
    for (size_t i = 0; i < scores.size(); ++i) {
      labels[i] = i % 5 == 0 ? 1 : 0;
      scores[i] = random() % 50 == 0 ? 1 : 0;
    }
    const Estimate rate = MeasureLeak(scores, labels)->tpr_at_1_percent_fpr;
    outside += rate.low > 0.01 || rate.high < 0.01 ? 1 : 0;
    highest = std::max(highest, rate.high);
  }
  EXPECT_LE(outside, 36);  // 5% of 400 are 20; more than 36 have a probability below 0.001.
  EXPECT_LT(highest, 0.06);
}

TEST(MeasureLeakTest, TruePositiveRatesAreThoseOfTheInvertedScoreWhereTheAucIsBelowOneHalf) {
  Sample sample = Draw(4000, 1000, 1.5);
  const LeakFigures upright = MeasureLeak(sample.scores, sample.labels).value();
  for (float& score : sample.scores) {
    score = -score;
  }
  const LeakFigures reversed = MeasureLeak(sample.scores, sample.labels).value();
  EXPECT_NEAR(reversed.auc.value, 1 - upright.auc.value, 1e-12);
  for (Estimate LeakFigures::*rate : {&LeakFigures::tpr_at_1_percent_fpr, &LeakFigures::tpr_at_01_percent_fpr}) {
    EXPECT_DOUBLE_EQ((reversed.*rate).value, (upright.*rate).value);
    EXPECT_DOUBLE_EQ((reversed.*rate).low, (upright.*rate).low);
    EXPECT_DOUBLE_EQ((reversed.*rate).high, (upright.*rate).high);
  }
  EXPECT_GT(reversed.tpr_at_1_percent_fpr.value, 0.1);
}

// A score may point the wrong way and still accuse its few highest rightly: inverting must not hide them.
TEST(MeasureLeakTest, InvertingNeverLowersATruePositiveRate) {
  Sample sample;
  for (int i = 0; i < 1000; ++i) {
    sample.scores.push_back(static_cast<float>(i));
    sample.labels.push_back(0);
  }
  for (int i = 0; i < 100; ++i) {  // A tenth above all negatives, the others below the middle.
    sample.scores.push_back(i < 10 ? 2000.0f : 300.5f);
    sample.labels.push_back(1);
  }
  const LeakFigures figures = MeasureLeak(sample.scores, sample.labels).value();
  EXPECT_LT(figures.auc.value, 0.5);
  EXPECT_NEAR(figures.tpr_at_1_percent_fpr.value, 0.1, 1e-12);
}

// One negative in a thousand is less than one of 500: what exceeds them all counts, and nothing is certain from below.
TEST(MeasureLeakTest, TooFewNegativesLeaveTheLowerLimitOpen) {
  const Sample sample = Draw(500, 200, 3.0);
  const auto figures = MeasureLeak(sample.scores, sample.labels);
  const float highest_negative = *std::max_element(sample.scores.begin() + 200, sample.scores.end());
  int above = 0;
  for (int i = 0; i < 200; ++i) {
    above += sample.scores[i] > highest_negative;
  }
  EXPECT_NEAR(figures->tpr_at_01_percent_fpr.value, above / 200.0, 1e-12);
  EXPECT_GT(above, 0);
  EXPECT_EQ(figures->tpr_at_01_percent_fpr.low, 0);
  EXPECT_GE(figures->tpr_at_01_percent_fpr.high, figures->tpr_at_01_percent_fpr.value);
}

TEST(MeasureLeakTest, FiguresDependOnTheOrderAlone) {
  Sample sample = Draw(1500, 300, 1.0);
  const auto before = MeasureLeak(sample.scores, sample.labels);
  for (float& score : sample.scores) {
    score = std::exp(score / 2) - 7;
  }
  const auto after = MeasureLeak(sample.scores, sample.labels);
  ExpectNear(after->auc, before->auc);
  ExpectNear(after->tpr_at_1_percent_fpr, before->tpr_at_1_percent_fpr);
}

TEST(MeasureLeakTest, InfiniteScoresRankAtTheEnds) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(MeasureLeak(std::vector<float>{-infinity, 0, infinity}, std::vector<uint8_t>{0, 0, 1})->auc.value, 1);
}

TEST(MeasureLeakTest, RefusesWhatHasNoAuc) {
  const auto code = [](const std::vector<float>& scores, const std::vector<uint8_t>& labels) {
    return MeasureLeak(scores, labels).status().code();
  };
  EXPECT_EQ(code({1, 2}, {1, 1}), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(code({1, 2}, {0, 0}), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(code({}, {}), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(code({1, 2}, {0}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({1, std::nanf("")}, {0, 1}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({1, 2}, {0, 2}), absl::StatusCode::kInvalidArgument);
}

TEST(StandardizeScoresTest, GivesMeanZeroAndDeviationOne) {
  std::vector<float> scores = {1e6f, 1e6f + 2, 1e6f + 4, 1e6f + 6};
  StandardizeScores(scores);
  const float unit = 1 / std::sqrt(5.0f);
  EXPECT_NEAR(scores[0], -3 * unit, 1e-6);
  EXPECT_NEAR(scores[1], -unit, 1e-6);
  EXPECT_NEAR(scores[3], 3 * unit, 1e-6);
}

TEST(StandardizeScoresTest, EqualScoresBecomeZero) {
  std::vector<float> scores(7, 0.1f);
  StandardizeScores(scores);
  EXPECT_EQ(scores, std::vector<float>(7, 0.0f));
}

TEST(StandardizeScoresTest, InfiniteScoresStayAndCountForNothing) {
  const float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> scores = {-1, infinity, 1};
  StandardizeScores(scores);
  EXPECT_EQ(scores, (std::vector<float>{-1, infinity, 1}));
}

TEST(StandardizeScoresTest, NothingStaysNothing) {
  std::vector<float> scores;
  StandardizeScores(scores);
  EXPECT_TRUE(scores.empty());
}

// A single pair of 3,000,000 the wrong way: the sample's variance is all but nothing, and the interval must not be all.
TEST(MeasureLeakTest, IntervalIsNarrowWhereAllButAFewPairsAreRight) {
  std::vector<float> scores;
  std::vector<uint8_t> labels;
  for (int i = 0; i < 3000; ++i) {
    scores.push_back(static_cast<float>(i));
    labels.push_back(0);
    if (i % 3 == 0) {
      scores.push_back(static_cast<float>(10000 + i));
      labels.push_back(1);
    }
  }
  scores.back() = 20000;  // The highest negative stands above the highest positive.
  labels[scores.size() - 2] = 1;
  labels.back() = 0;
  const auto figures = MeasureLeak(scores, labels);
  ASSERT_TRUE(figures.ok()) << figures.status();
  EXPECT_LT(figures->auc.value, 1);
  EXPECT_GT(figures->auc.low, 0.99);
  EXPECT_GE(figures->auc.high, figures->auc.value);
}

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
