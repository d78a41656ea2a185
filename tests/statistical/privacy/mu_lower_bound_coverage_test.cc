// How often LowerBoundMu refutes a mechanism that keeps its promise, and one that does not. Fixed seeds. A bound that
// holds with 95% fails in more than 85 of 1000 runs with probability below 2e-6 (binomial); 5 comparisons.
#include <cmath>
#include <cstdint>
#include <functional>
#include <gtest/gtest.h>
#include <random>
#include <vector>

#include "common/leakage/leak_figures.h"
#include "common/privacy/gaussian_privacy.h"
#include "common/privacy/mu_lower_bound.h"

namespace splitveil {
namespace {

constexpr int kRuns = 1000;
constexpr int kMostRefuted = 85;

struct Summary {
  int mu_refuted = 0, epsilon_refuted = 0;
  double mean_mu_lower = 0;
};

// Runs of `examples`, a quarter of them positive, the score drawn from `score(random, label)`; how many refute `claim`.
Summary Simulate(int runs, int examples, double claim,
                 const std::function<double(std::mt19937_64&, int label)>& score) {
  std::mt19937_64 random(11);  // NOLINT(cert-msc51-cpp): a fixed seed on purpose.
  const GaussianPrivacy claimed = *GaussianPrivacy::FromMu(claim);
  MuLowerBoundOptions options;
  const double claimed_epsilon = claimed.EpsilonAt(options.delta);
  std::vector<float> scores(examples);
  std::vector<uint8_t> labels(examples);
  Summary summary;
  for (int run = 0; run < runs; ++run) {
    for (int i = 0; i < examples; ++i) {
      labels[i] = i % 4 == 0 ? 1 : 0;
      scores[i] = static_cast<float>(score(random, labels[i]));
    }
    options.seed = run;
    const auto bound = LowerBoundMu(scores, labels, options);
    EXPECT_TRUE(bound.ok()) << bound.status();
    summary.mu_refuted += bound->mu_lower > claim ? 1 : 0;
    summary.epsilon_refuted += bound->epsilon_lower > claimed_epsilon ? 1 : 0;
    summary.mean_mu_lower += bound->mu_lower / runs;
  }
  return summary;
}

std::function<double(std::mt19937_64&, int)> Gaussian(double mu) {
  return [mu](std::mt19937_64& random, int label) { return std::normal_distribution<double>(mu * label)(random); };
}

TEST(MuLowerBoundCoverageTest, TheStatedNumberIsThatOfTheBinomial) {
  EXPECT_GT(BinomialCdf(kRuns, 0.05, kMostRefuted), 1 - 2e-6);
}

class HonestTest : public ::testing::TestWithParam<double> {};

INSTANTIATE_TEST_SUITE_P(Mus, HonestTest, ::testing::Values(0.0, 0.5, 1.0, 3.0));

TEST_P(HonestTest, HonestNoiseIsRarelyRefuted) {
  const double mu = GetParam();
  const Summary summary = Simulate(kRuns, 1000, mu, Gaussian(mu));
  RecordProperty("mu_refuted", summary.mu_refuted);
  EXPECT_LE(summary.mu_refuted, kMostRefuted);
  EXPECT_LE(summary.epsilon_refuted, kMostRefuted);
}

// Examples whose scores are nowhere alike: the noise of each is scaled and shifted by what is public about it.
TEST(MuLowerBoundCoverageTest, HonestNoiseOfUnequalExamplesIsRarelyRefuted) {
  const Summary summary = Simulate(kRuns, 1000, 1, [](std::mt19937_64& random, int label) {
    const double scale = std::exp(std::normal_distribution<double>()(random));
    return scale * (std::normal_distribution<double>(label)(random) - 0.5);
  });
  EXPECT_LE(summary.mu_refuted, kMostRefuted);
}

TEST(MuLowerBoundCoverageTest, HalfTheNoiseIsFoundInNearlyAllRuns) {
  for (double claim : {0.3, 0.5, 1.0, 2.0}) {
    const Summary summary = Simulate(100, 10'000, claim, Gaussian(2 * claim));
    EXPECT_GE(summary.mu_refuted, 95) << claim;
    EXPECT_LE(summary.mean_mu_lower, 2 * claim);
  }
}

TEST(MuLowerBoundCoverageTest, ComesNearTheTruth) {
  for (double mu : {0.5, 1.0, 2.0, 3.0}) {
    const Summary summary = Simulate(50, 10'000, mu, Gaussian(mu));
    EXPECT_GE(summary.mean_mu_lower, mu - 0.25) << mu;
    EXPECT_LE(summary.mean_mu_lower, mu) << mu;
  }
}

}  // namespace
}  // namespace splitveil
