#include "common/leakage/conditional_likelihood.h"

#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <vector>

#include "common/leakage/bounds.h"
#include "common/leakage/leak_auc.h"

namespace splitveil {
namespace {

constexpr int64_t kCols = 5;

// Rows (p - y) v of random heads, with noise of the stated kind.
struct Releases {
  Releases(int64_t rows, uint64_t seed) : clean(rows, kCols), released(rows, kCols), directions(rows, kCols) {
    std::mt19937_64 random(seed);
    std::normal_distribution<float> normal;
    std::uniform_real_distribution<float> uniform(0.05F, 0.95F);
    for (int64_t j = 0; j < rows; ++j) {
      probabilities.push_back(uniform(random));
      labels.push_back(uniform(random) < probabilities.back() ? 1 : 0);
      for (int64_t i = 0; i < kCols; ++i) {
        directions.row(j)[i] = normal(random);
        clean.row(j)[i] = (probabilities.back() - labels.back()) * directions.row(j)[i];
      }
    }
    released = Matrix(clean);
  }

  // Independent noise: variance `along` on the first axis, `across` on the others, by class.
  void AddNoise(const NoiseVariances& negative, const NoiseVariances& positive, uint64_t seed) {
    std::mt19937_64 random(seed);
    std::normal_distribution<double> normal;
    for (int64_t j = 0; j < released.rows(); ++j) {
      const NoiseVariances& noise = labels[j] == 1 ? positive : negative;
      for (int64_t i = 0; i < kCols; ++i) {
        released.row(j)[i] += static_cast<float>(std::sqrt(i == 0 ? noise.along : noise.across) * normal(random));
      }
    }
    noise_negative = negative;
    noise_positive = positive;
  }

  ReleasingHead Head() const {
    ReleasingHead head;
    head.label_directions = directions;
    head.probabilities = probabilities;
    head.noise_negative = noise_negative;
    head.noise_positive = noise_positive;
    head.noise_direction = line;
    return head;
  }

  Matrix clean, released, directions;
  std::vector<float> probabilities;
  std::vector<uint8_t> labels;
  NoiseVariances noise_negative, noise_positive;
  std::vector<float> line = {1, 0, 0, 0, 0};
};

double LogNormal(double x, double mean, double variance) {
  return -0.5 * (std::log(2 * M_PI * variance) + (x - mean) * (x - mean) / variance);
}

TEST(ConditionalLikelihoodTest, IsTheLogRatioOfTheTwoDensities) {
  Releases releases(50, 1);
  releases.AddNoise({0.7, 0.2}, {1.3, 0.1}, 2);
  const std::vector<double> scores = ConditionalLogRatios(releases.released, releases.Head());
  for (int64_t j = 0; j < 50; ++j) {
    double expected = 0;
    for (int64_t i = 0; i < kCols; ++i) {
      const double x = releases.released.row(j)[i];
      const double v = releases.directions.row(j)[i];
      const double p = releases.probabilities[j];
      expected += LogNormal(x, (p - 1) * v, i == 0 ? 1.3 : 0.1) - LogNormal(x, p * v, i == 0 ? 0.7 : 0.2);
    }
    EXPECT_NEAR(scores[j], expected, 1e-4 * (1 + std::abs(expected))) << j;
  }
}

TEST(ConditionalLikelihoodTest, ReadsEveryLabelOfGradientsWithoutNoise) {
  const Releases releases(300, 3);
  const std::vector<double> scores = ConditionalLogRatios(releases.released, releases.Head());
  for (size_t j = 0; j < scores.size(); ++j) {
    EXPECT_NEAR(scores[j], releases.labels[j] - 0.5, 1e-5);
  }
}

// What the paper's noise covers, the line between the class means, is not where a single example's label moves it.
TEST(ConditionalLikelihoodTest, LooksBesideNoiseOnOneLine) {
  Releases releases(300, 4);
  releases.AddNoise({100, 0}, {100, 0}, 5);
  const std::vector<double> scores = ConditionalLogRatios(releases.released, releases.Head());
  const std::vector<float> floats(scores.begin(), scores.end());
  for (float score : floats) {
    EXPECT_TRUE(std::isfinite(score));
  }
  EXPECT_EQ(*LeakAuc(floats, releases.labels), 1);
}

// The exact law: noise sigma on the label itself is that much noise along v, and AUC = Phi(1 / (sigma sqrt 2)).
TEST(ConditionalLikelihoodTest, ReachesTheGaussianMechanismsAucAndNoMore) {
  constexpr int64_t kRows = 200'000;
  constexpr float kSigma = 2;
  Releases releases(kRows, 6);
  std::mt19937_64 random(7);
  std::normal_distribution<float> normal;
  for (int64_t j = 0; j < kRows; ++j) {
    const float residual =
        releases.probabilities[j] - (static_cast<float>(releases.labels[j]) + kSigma * normal(random));
    for (int64_t i = 0; i < kCols; ++i) {
      releases.released.row(j)[i] = residual * releases.directions.row(j)[i];
    }
  }
  const std::vector<double> scores = ConditionalLogRatios(releases.released, releases.Head());
  const double auc = *LeakAuc(std::vector<float>(scores.begin(), scores.end()), releases.labels);
  // Six standard errors: sqrt((n + m + 1) / (12 n m)) <= 0.0013.
  EXPECT_NEAR(auc, 0.5 * std::erfc(-1 / (2 * kSigma)), 0.008);
}

// Of a posterior the evidence is the noised label's own again: (t - 1/2) / sigma^2, whatever p is.
TEST(ConditionalLikelihoodTest, TakesThePriorOutOfAPosterior) {
  Releases releases(200, 11);
  std::mt19937_64 random(12);
  std::normal_distribution<double> normal;
  std::vector<double> expected;
  for (int64_t j = 0; j < 200; ++j) {
    const double p = releases.probabilities[j];
    expected.push_back((releases.labels[j] + 1.5 * normal(random) - 0.5) / 2.25);
    const double posterior = 1 / (1 + (1 - p) / p * std::exp(-expected.back()));
    for (int64_t i = 0; i < kCols; ++i) {
      releases.released.row(j)[i] = static_cast<float>(p - posterior) * releases.directions.row(j)[i];
    }
  }
  ReleasingHead head = releases.Head();
  head.releases_posterior = true;
  const std::vector<double> scores = ConditionalLogRatios(releases.released, head);
  for (size_t j = 0; j < scores.size(); ++j) {
    EXPECT_NEAR(scores[j], expected[j], 1e-4);
  }
}

TEST(ConditionalLikelihoodTest, KnowsThatGradientsWereClipped) {
  Releases releases(200, 8);
  for (int64_t j = 0; j < 200; ++j) {
    double squared = 0;
    for (float component : std::as_const(releases.clean).row(j)) {
      squared += static_cast<double>(component) * component;
    }
    for (float& component : releases.released.row(j)) {
      component *= squared > 0.25 ? static_cast<float>(0.5 / std::sqrt(squared)) : 1;
    }
  }
  ReleasingHead head = releases.Head();
  head.clip_norm = 0.5;
  const std::vector<double> scores = ConditionalLogRatios(releases.released, head);
  for (size_t j = 0; j < scores.size(); ++j) {
    EXPECT_NEAR(scores[j], releases.labels[j] - 0.5, 1e-4);
  }
}

TEST(ConditionalLikelihoodTest, SaysNothingOfARowThatNoLabelMoves) {
  Releases releases(3, 9);
  for (float& component : releases.directions.row(1)) {
    component = 0;
  }
  EXPECT_EQ(ConditionalLogRatios(releases.released, releases.Head())[1], 0);
  releases.AddNoise({1, 1}, {1, 1}, 10);
  EXPECT_EQ(ConditionalLogRatios(releases.released, releases.Head())[1], 0);
}

}  // namespace
}  // namespace splitveil
