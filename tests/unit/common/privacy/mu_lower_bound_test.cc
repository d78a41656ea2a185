#include "common/privacy/mu_lower_bound.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "common/privacy/gaussian_privacy.h"

namespace splitveil {
namespace {

struct Sample {
  std::vector<float> scores;
  std::vector<uint8_t> labels;
};

// `positives` scores of `high` and `negatives` of `low`.
Sample Separated(int positives, int negatives, float high = 1, float low = 0) {
  Sample sample;
  sample.scores.assign(positives, high);
  sample.scores.insert(sample.scores.end(), negatives, low);
  sample.labels.assign(positives, 1);
  sample.labels.insert(sample.labels.end(), negatives, 0);
  return sample;
}

TEST(MuLowerBoundTest, PerfectSeparationHasTheClosedForm) {
  const Sample sample = Separated(200, 600);
  const auto bound = LowerBoundMu(sample.scores, sample.labels);
  ASSERT_TRUE(bound.ok()) << bound.status();
  EXPECT_TRUE(bound->positive_above);
  EXPECT_EQ(bound->threshold, 1);
  // Clopper-Pearson at all of n and none of n: risk^(1/n) and 1 - risk^(1/n).
  const double tpr = std::pow(0.025, 1.0 / 100);
  const double fpr = 1 - std::pow(0.025, 1.0 / 300);
  EXPECT_NEAR(bound->true_positive_rate_low, tpr, 1e-12);
  EXPECT_NEAR(bound->false_positive_rate_high, fpr, 1e-12);
  EXPECT_NEAR(bound->mu_lower, NormalQuantile(tpr) - NormalQuantile(fpr), 1e-9);
  EXPECT_NEAR(bound->epsilon_lower, std::log((tpr - 1e-5) / fpr), 1e-9);
}

TEST(MuLowerBoundTest, EpsilonTakesTheBetterOfBothAnswers) {
  // Few negatives, many positives: what is sure is that a low score is no positive.
  const Sample sample = Separated(600, 200);
  const auto bound = LowerBoundMu(sample.scores, sample.labels);
  ASSERT_TRUE(bound.ok()) << bound.status();
  EXPECT_NEAR(bound->epsilon_lower, std::log((std::pow(0.025, 0.01) - 1e-5) / (1 - std::pow(0.025, 1.0 / 300))), 1e-9);
}

TEST(MuLowerBoundTest, IsAboutWhatIsExpected) {
  constexpr int kRuns = 20, kPositives = 1000, kNegatives = 3000;
  MuLowerBoundOptions options;
  options.confidence = 0.9999;
  for (const double mu : {0.5, 1.0, 2.0}) {
    std::mt19937_64 random(static_cast<uint64_t>(8 * mu));
    std::normal_distribution<float> normal;
    double mean = 0;
    for (int run = 0; run < kRuns; ++run) {
      Sample sample = Separated(kPositives, kNegatives, static_cast<float>(mu));
      for (float& score : sample.scores) {
        score += normal(random);
      }
      mean += LowerBoundMu(sample.scores, sample.labels, options)->mu_lower / kRuns;
    }
    // A run scatters by 0.1; the chosen threshold costs what the expectation does not know.
    EXPECT_NEAR(mean, ExpectedMuLower(mu, {{0, kPositives}}, {{0, kNegatives}}, options.confidence), 0.1) << mu;
  }
  EXPECT_EQ(ExpectedMuLower(0, {{0, 1000}}, {{0, 1000}}, 0.95), 0);
  EXPECT_EQ(ExpectedMuLower(5, {{0, 1}}, {{0, 1000}}, 0.95), 0);
  EXPECT_LT(ExpectedMuLower(1, {{0, 100}}, {{0, 100}}, 0.95), ExpectedMuLower(1, {{0, 1000}}, {{0, 1000}}, 0.95));
}

TEST(MuLowerBoundTest, FindsScoresThatPointTheOtherWay) {
  const Sample up = Separated(300, 300);
  const Sample down = Separated(300, 300, -1, 0);
  const auto bound = LowerBoundMu(down.scores, down.labels);
  ASSERT_TRUE(bound.ok()) << bound.status();
  EXPECT_FALSE(bound->positive_above);
  EXPECT_EQ(bound->mu_lower, LowerBoundMu(up.scores, up.labels)->mu_lower);
}

TEST(MuLowerBoundTest, EqualScoresRefuteNothing) {
  const Sample sample = Separated(300, 300, 5, 5);
  const auto bound = LowerBoundMu(sample.scores, sample.labels);
  ASSERT_TRUE(bound.ok()) << bound.status();
  EXPECT_EQ(bound->mu_lower, 0);
  EXPECT_EQ(bound->epsilon_lower, 0);
}

TEST(MuLowerBoundTest, TwoExamplesOfAClassAreEnoughToAnswerAndTooFewToRefute) {
  const Sample sample = Separated(2, 2);
  const auto bound = LowerBoundMu(sample.scores, sample.labels);
  ASSERT_TRUE(bound.ok()) << bound.status();
  EXPECT_EQ(bound->mu_lower, 0);
}

TEST(MuLowerBoundTest, MoreConfidenceAndMoreDeltaRefuteLess) {
  const Sample sample = Separated(200, 200);
  MuLowerBoundOptions options;
  const auto usual = LowerBoundMu(sample.scores, sample.labels, options);
  options.confidence = 0.999;
  const auto sure = LowerBoundMu(sample.scores, sample.labels, options);
  EXPECT_LT(sure->mu_lower, usual->mu_lower);
  options.confidence = 0.95;
  options.delta = 0.5;
  const auto lenient = LowerBoundMu(sample.scores, sample.labels, options);
  EXPECT_EQ(lenient->mu_lower, usual->mu_lower);
  EXPECT_LT(lenient->epsilon_lower, usual->epsilon_lower);
}

TEST(MuLowerBoundTest, TheSeedDecidesTheSplitAndNothingElse) {
  Sample sample;
  for (int i = 0; i < 1000; ++i) {
    sample.labels.push_back(i % 4 == 0 ? 1 : 0);
    sample.scores.push_back(static_cast<float>((i * 7919) % 1000 + (i % 4 == 0 ? 300 : 0)));
  }
  MuLowerBoundOptions options;
  const auto first = LowerBoundMu(sample.scores, sample.labels, options);
  EXPECT_EQ(LowerBoundMu(sample.scores, sample.labels, options)->mu_lower, first->mu_lower);
  bool differs = false;
  for (options.seed = 1; options.seed < 5; ++options.seed) {
    differs = differs || LowerBoundMu(sample.scores, sample.labels, options)->mu_lower != first->mu_lower;
  }
  EXPECT_TRUE(differs);
}

TEST(MuLowerBoundTest, InfiniteScoresAreScores) {
  const float infinity = std::numeric_limits<float>::infinity();
  const Sample sample = Separated(200, 200, infinity, -infinity);
  EXPECT_EQ(LowerBoundMu(sample.scores, sample.labels)->mu_lower,
            LowerBoundMu(Separated(200, 200).scores, sample.labels)->mu_lower);
}

TEST(MuLowerBoundTest, RefusesClassesOfFewerThanTwo) {
  for (const Sample& sample :
       {Separated(0, 100), Separated(100, 0), Separated(1, 100), Separated(100, 1), Separated(0, 0)}) {
    const absl::Status status = LowerBoundMu(sample.scores, sample.labels).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(status.message(), "lower bound of mu: at least two examples of each class are needed");
  }
}

std::string Refusal(const Sample& sample, const MuLowerBoundOptions& options = {}) {
  const absl::Status status = LowerBoundMu(sample.scores, sample.labels, options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

TEST(MuLowerBoundTest, RefusesScoresAndLabelsThatAreNone) {
  Sample sample = Separated(10, 10);
  sample.scores[3] = std::nanf("");
  EXPECT_EQ(Refusal(sample), "lower bound of mu: score 3 is not a number or a range");
  sample = Separated(10, 10);
  sample.labels[4] = 2;
  EXPECT_EQ(Refusal(sample), "lower bound of mu: label 4 is neither 0 nor 1");
  sample = Separated(10, 10);
  sample.labels.pop_back();
  EXPECT_EQ(Refusal(sample), "lower bound of mu: expected as many labels as scores, below 2^32, found 19 and 20");
}

TEST(MuLowerBoundTest, RefusesOptionsOutOfRange) {
  const Sample sample = Separated(10, 10);
  for (double confidence : {0.4, 1.0, std::nan("")}) {
    MuLowerBoundOptions options;
    options.confidence = confidence;
    EXPECT_NE(Refusal(sample, options).find("confidence: expected in [0.5, 1)"), std::string::npos);
  }
  for (double delta : {-0.1, 1.0, std::nan("")}) {
    MuLowerBoundOptions options;
    options.delta = delta;
    EXPECT_NE(Refusal(sample, options).find("delta: expected in [0, 1)"), std::string::npos);
  }
}

// Clopper and Pearson's 99% limits from below, as one proportion's (the binomial tail solved in Python), put through 1
// / Phi^-1((1 + share) / 2).
TEST(MuLowerOfNoiseTest, IsMuOverTheUpperLimitOfTheDeviation) {
  EXPECT_NEAR(MuLowerOfNoise(0.5, 68, 100, 0.01), 0.386844, 1e-5);
  EXPECT_NEAR(MuLowerOfNoise(0.5, 95, 100, 0.01), 0.765333, 1e-5);  // Half of the noise.
}

TEST(MuLowerOfNoiseTest, OfNoNoiseItGrowsWithTheDrawsAndOfNoDrawsItIsNothing) {
  EXPECT_GT(MuLowerOfNoise(0.5, 1000, 1000, 1e-5), 1);
  EXPECT_GT(MuLowerOfNoise(0.5, 100'000, 100'000, 1e-5), MuLowerOfNoise(0.5, 1000, 1000, 1e-5));
  EXPECT_TRUE(std::isfinite(MuLowerOfNoise(0.5, 100'000, 100'000, 1e-5)));
  EXPECT_EQ(MuLowerOfNoise(0.5, 0, 0, 0.01), 0);
  EXPECT_EQ(MuLowerOfNoise(0.5, 0, 100, 0.01), 0);  // All of it is hidden by rounding.
}

// What rounding leaves open counts for the claim, in either direction of the test.
TEST(LowerBoundMuTest, RangesCountAsTheirEndThatSpeaksForTheClaim) {
  std::vector<ScoreRange> apart, wide, reversed;
  std::vector<uint8_t> labels;
  for (int i = 0; i < 2000; ++i) {
    const float label = i % 2 == 0 ? 1 : 0;
    labels.push_back(static_cast<uint8_t>(label));
    apart.push_back({label - 0.4F, label + 0.4F});
    wide.push_back({label - 0.5F, label + 0.5F});
    reversed.push_back({-label - 0.4F, -label + 0.4F});
  }
  EXPECT_GT(LowerBoundMu(apart, labels)->mu_lower, 4);
  EXPECT_EQ(LowerBoundMu(wide, labels)->mu_lower, 0);
  EXPECT_GT(LowerBoundMu(reversed, labels)->mu_lower, 4);
  EXPECT_FALSE(LowerBoundMu(reversed, labels)->positive_above);
  apart[0] = {1, 0};
  EXPECT_EQ(LowerBoundMu(apart, labels).status().code(), absl::StatusCode::kInvalidArgument);
}

// Every second score is open by 1, every tenth by anything.
TEST(ExpectedMuLowerTest, CountsWhatIsOpenAgainstTheAttack) {
  constexpr int kRuns = 20, kEach = 2000;
  const OpenScores open = {{0, 4 * kEach / 10}, {1, 5 * kEach / 10}, {100, kEach / 10}};
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal;
  double mean = 0;
  for (int run = 0; run < kRuns; ++run) {
    std::vector<ScoreRange> scores;
    std::vector<uint8_t> labels;
    for (const uint8_t label : {0, 1}) {
      for (const auto& [width, examples] : open) {
        for (int64_t i = 0; i < examples; ++i) {
          const float middle = 2 * static_cast<float>(label) + normal(random), half = static_cast<float>(width) / 2;
          scores.push_back({middle - half, middle + half});
          labels.push_back(label);
        }
      }
    }
    mean += LowerBoundMu(scores, labels)->mu_lower / kRuns;
  }
  EXPECT_NEAR(mean, ExpectedMuLower(2, open, open, 0.95), 0.1);  // A run scatters by less than 0.1.
  EXPECT_LT(ExpectedMuLower(2, open, open, 0.95), ExpectedMuLower(2, {{0, kEach}}, {{0, kEach}}, 0.95) - 0.5);
  EXPECT_EQ(ExpectedMuLower(9, {{100, kEach}}, {{100, kEach}}, 0.95), 0);
}

// Gradients without noise: a run of them would otherwise never end.
TEST(ExpectedMuLowerTest, EndsForAnyMu) {
  const double apart = ExpectedMuLower(20, {{0, 500}}, {{0, 500}}, 0.95);
  EXPECT_GT(apart, 3);
  for (const double mu : {1e3, 1e9, 1e300, std::numeric_limits<double>::infinity()}) {
    EXPECT_EQ(ExpectedMuLower(mu, {{0, 500}}, {{0, 500}}, 0.95), apart) << mu;
  }
}

}  // namespace
}  // namespace splitveil
