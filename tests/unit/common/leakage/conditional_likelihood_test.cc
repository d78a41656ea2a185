#include "common/leakage/conditional_likelihood.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/leakage/bounds.h"
#include "common/leakage/summary.h"
#include "common/matrix/matrix.h"

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

// Places that rounding moves by what p says would rank the rows of one label by p.
TEST(ConditionalLikelihoodTest, ReadsFlippedLabelsWithoutWhatRoundingLeavesOfTheProbability) {
  Releases rows(200, 3);
  for (int64_t j = 0; j < 200; ++j) {
    for (int64_t i = 0; i < kCols; ++i) {
      rows.released.row(j)[i] = std::round(64 * rows.released.row(j)[i]) / 64;  // Coarser than any wire.
      if (j % 4 == 0) {
        rows.directions.row(j)[i] *= 1e-5F;  // What is sent of these is rounding alone.
        rows.released.row(j)[i] = 0;
      }
    }
  }
  ReleasingHead head = rows.Head();
  head.noise_negative = head.noise_positive = {std::nan(""), std::nan("")};
  head.has_flipped_label = true;
  head.rounding = {1.0 / 64, 1.0 / 128};
  const std::vector<double> scores = ConditionalLogRatios(rows.released, head);
  for (size_t j = 0; j < scores.size(); ++j) {
    EXPECT_EQ(scores[j], j % 4 == 0 ? 0 : rows.labels[j] - 0.5) << j;
  }
  head.releases_repeat = true;
  EXPECT_EQ(RepeatPrecisions(head)[0], 0);
  EXPECT_GT(RepeatPrecisions(head)[1], 1);
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

// max_norm as its planner states it: noise along each row that brings its expected square to that of the longest row
// that any label could give.
struct MaxNormReleases : Releases {
  MaxNormReleases(int64_t rows, uint64_t seed) : Releases(rows, seed) {
    std::mt19937_64 random(seed + 1);
    std::normal_distribution<double> normal;
    for (int64_t j = 0; j < rows; ++j) {
      const double p = probabilities[static_cast<size_t>(j)];
      longest = std::max(longest, std::max(p, 1 - p) * std::sqrt(DirectionSquare(j)));
    }
    for (int64_t j = 0; j < rows; ++j) {
      const double c = probabilities[static_cast<size_t>(j)] - labels[static_cast<size_t>(j)];
      const double spread = longest * longest / (c * c * DirectionSquare(j)) - 1;
      const auto scale = static_cast<float>(1 + std::sqrt(std::max(0.0, spread)) * normal(random));
      for (float& component : released.row(j)) {
        component *= scale;
      }
    }
  }

  ReleasingHead Head() const {
    ReleasingHead head = Releases::Head();
    head.longest = longest;
    return head;
  }
  double DirectionSquare(int64_t j) const {
    double square = 0;
    for (float component : directions.row(j)) {
      square += static_cast<double>(component) * component;
    }
    return square;
  }

  double longest = 0;
};

TEST(ConditionalLikelihoodTest, IsTheLogRatioOfMaxNormsTwoDensities) {
  const MaxNormReleases releases(60, 20);
  const std::vector<double> scores = ConditionalLogRatios(releases.released, releases.Head());
  int compared = 0;
  for (int64_t j = 0; j < 60; ++j) {
    const double square = releases.DirectionSquare(j), p = releases.probabilities[j];
    const double longest = releases.longest * releases.longest / square;
    if (std::max(p, 1 - p) * std::max(p, 1 - p) >= (1 - 1e-6) * longest) {
      continue;  // Of a row that one label makes the longest, a density is none.
    }
    double place = 0;
    for (int64_t i = 0; i < kCols; ++i) {
      place += static_cast<double>(releases.released.row(j)[i]) * releases.directions.row(j)[i] / square;
    }
    const double expected = LogNormal(place, p - 1, longest - (1 - p) * (1 - p)) - LogNormal(place, p, longest - p * p);
    EXPECT_NEAR(scores[j], expected, 1e-4 * (1 + std::abs(expected))) << j;
    ++compared;
  }
  EXPECT_GT(compared, 50);
}

// P(|X| > |Y|) for normal X and Y, by Simpson's rule over Y.
double FoldedAuc(double x_mean, double x_variance, double y_mean, double y_variance) {
  const auto cdf = [](double z) { return 0.5 * std::erfc(-z / std::sqrt(2.0)); };
  constexpr int kSteps = 4000;
  const double y_stddev = std::sqrt(y_variance), x_stddev = std::sqrt(x_variance);
  double sum = 0;
  for (int i = 0; i <= kSteps; ++i) {
    const double z = -8 + 16.0 * i / kSteps;
    const double y = std::abs(y_mean + z * y_stddev);
    const double above = cdf((x_mean - y) / x_stddev) + cdf((-y - x_mean) / x_stddev);
    const int weight = i == 0 || i == kSteps ? 1 : i % 2 == 1 ? 4 : 2;
    sum += weight * above * std::exp(-z * z / 2);
  }
  return sum * (16.0 / kSteps) / 3 / std::sqrt(2 * M_PI);
}

// Rows of one p and one v: place a ~ N(c, M^2 - c^2), and the ratio of two normal densities of other spread orders by
// the distance from one point. No score does better, the place on the line least of all.
TEST(ConditionalLikelihoodTest, ReachesTheAucOfMaxNormsLaw) {
  constexpr int64_t kRows = 200'000;
  constexpr float kProbability = 0.2F;
  constexpr double kLongest = 1;
  MaxNormReleases releases(2, 1);
  releases.directions = Matrix(kRows, kCols);
  releases.released = Matrix(kRows, kCols);
  releases.probabilities.assign(kRows, kProbability);
  releases.longest = kLongest;
  releases.labels.clear();
  std::mt19937_64 random(9);
  std::normal_distribution<double> normal;
  for (int64_t j = 0; j < kRows; ++j) {
    releases.labels.push_back(j % 4 == 0 ? 1 : 0);
    const double c = kProbability - releases.labels.back();
    releases.directions.row(j)[2] = 1;
    releases.released.row(j)[2] = static_cast<float>(c + std::sqrt(kLongest - c * c) * normal(random));
  }
  const auto auc = [&](const ReleasingHead& head) {
    const std::vector<double> scores = ConditionalLogRatios(releases.released, head);
    return *LeakAuc(std::vector<float>(scores.begin(), scores.end()), releases.labels);
  };
  const double c0 = kProbability, c1 = c0 - 1, s0 = 1 - c0 * c0, s1 = 1 - c1 * c1;
  // The negatives spread more: their log ratio falls with the distance from where the two densities' slopes meet.
  const double apex = (c1 / s1 - c0 / s0) / (1 / s1 - 1 / s0);
  const double expected = FoldedAuc(c0 - apex, s0, c1 - apex, s1);
  // Six standard errors: sqrt((n + m + 1) / (12 n m)) <= 0.0015.
  EXPECT_NEAR(auc(releases.Head()), expected, 0.009);
  const double of_place = auc(releases.Releases::Head());
  EXPECT_GT(auc(releases.Head()), of_place + 0.002);
  RecordProperty("auc", std::to_string(expected) + " by the law, " + std::to_string(of_place) + " by the place");
}

// What floats of 8 bits do to a row must not pass for noise that it does not have.
TEST(ConditionalLikelihoodTest, ToleratesRoundingOfMaxNormsRows) {
  MaxNormReleases releases(200, 30);
  const std::vector<double> exact = ConditionalLogRatios(releases.released, releases.Head());
  for (int64_t j = 0; j < 200; ++j) {
    for (float& component : releases.released.row(j)) {
      int exponent = 0;
      const float mantissa = std::frexp(component, &exponent);
      component = std::ldexp(std::round(std::ldexp(mantissa, 8)), exponent - 8);
    }
  }
  const std::vector<double> rounded = ConditionalLogRatios(releases.released, releases.Head());
  for (int64_t j = 0; j < 200; ++j) {
    if (std::abs(exact[j]) < 5) {
      EXPECT_NEAR(rounded[j], exact[j], 0.05 * (1 + std::abs(exact[j]))) << j;
    } else {
      EXPECT_GT(rounded[j] * exact[j], 0) << j;
    }
  }
}

// A clean gradient of zero has no line: its noise goes in every direction, and only the label that makes it zero does
// so.
TEST(ConditionalLikelihoodTest, TellsMaxNormsRowsOfZerosByTheirNoise) {
  MaxNormReleases releases(4, 40);
  std::mt19937_64 random(41);
  std::normal_distribution<float> normal;
  releases.probabilities = {1, 1, 0, 0};
  releases.labels = {1, 0, 0, 1};
  for (int64_t j = 0; j < 4; ++j) {
    const bool is_zero = releases.probabilities[j] == static_cast<float>(releases.labels[j]);
    for (int64_t i = 0; i < kCols; ++i) {
      releases.released.row(j)[i] = is_zero ? normal(random) : 3 * releases.directions.row(j)[i];
    }
  }
  const std::vector<double> scores = ConditionalLogRatios(releases.released, releases.Head());
  for (int64_t j = 0; j < 4; ++j) {
    EXPECT_GT(releases.labels[j] == 1 ? scores[j] : -scores[j], 100) << j;
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
