// Tries to tell the samples of discrete_gaussian.h and LabelNoise from their exact distributions. The seeds are fixed,
// so a result repeats; under a random seed each single comparison would fail by chance with probability 1e-6 at most
// (kFalseFailure), the whole file with less than 1e-4.
#include <algorithm>
#include <array>
#include <boost/math/special_functions/gamma.hpp>
#include <cmath>
#include <functional>
#include <gtest/gtest.h>
#include <map>
#include <string>
#include <vector>

#include "common/crypto/discrete_gaussian.h"
#include "common/crypto/label_noise.h"
#include "common/crypto/seeded_stream.h"
#include "common/crypto/sha256.h"

namespace splitveil {
namespace {

constexpr double kFalseFailure = 1e-6;
constexpr double kNormalQuantile = 4.892;  // P(|N(0, 1)| > 4.892) = 1e-6.

double Phi(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

// Words that a seed, the test's name, determines.
class Words {
 public:
  explicit Words(const std::string& seed) : stream_(Sha256(seed)) {}
  uint64_t operator()() const { return stream_.NextUint64(); }

 private:
  mutable SeededStream stream_;
};

// Pearson's test of counts against probabilities that need not add up to one: the rest is a bin of its own. Bins that
// expect fewer than 10 are pooled with the rest.
void ExpectCounts(const std::map<int64_t, int64_t>& counts, const std::map<int64_t, double>& probabilities,
                  int64_t draws) {
  const auto n = static_cast<double>(draws);
  double statistic = 0;
  int bins = 0;
  double rest_expected = n;
  int64_t rest_found = draws;
  for (const auto& [value, probability] : probabilities) {
    if (n * probability < 10) {
      continue;
    }
    const auto found = counts.find(value);
    const int64_t count = found == counts.end() ? 0 : found->second;
    const double expected = n * probability;
    statistic += (static_cast<double>(count) - expected) * (static_cast<double>(count) - expected) / expected;
    rest_expected -= expected;
    rest_found -= count;
    ++bins;
  }
  ASSERT_GE(bins, 3);
  if (rest_expected >= 10) {
    statistic += (static_cast<double>(rest_found) - rest_expected) * (static_cast<double>(rest_found) - rest_expected) /
                 rest_expected;
    ++bins;
  }
  EXPECT_GT(boost::math::gamma_q((bins - 1) / 2.0, statistic / 2), kFalseFailure)
      << "chi squared " << statistic << " with " << bins - 1 << " degrees of freedom";
}

// e^(-f(y)) / sum over y, for |y| <= reach.
std::map<int64_t, double> Normalised(int64_t reach, const std::function<double(double)>& exponent) {
  std::map<int64_t, double> probabilities;
  double sum = 0;
  for (int64_t y = -reach; y <= reach; ++y) {
    sum += probabilities[y] = std::exp(-exponent(static_cast<double>(y)));
  }
  for (auto& [y, probability] : probabilities) {
    probability /= sum;
  }
  return probabilities;
}

std::map<int64_t, int64_t> Count(int64_t draws, const std::function<int64_t()>& draw) {
  std::map<int64_t, int64_t> counts;
  for (int64_t i = 0; i < draws; ++i) {
    ++counts[draw()];
  }
  return counts;
}

TEST(DiscreteGaussianStatisticalTest, BernoulliExpHasItsProbability) {
  constexpr int64_t kDraws = 400'000;
  constexpr std::array<std::array<uint64_t, 2>, 7> kExponents = {
      {{0, 1}, {1, 1000}, {1, 3}, {1, 1}, {3, 2}, {9, 2}, {(uint64_t{1} << 62) + 12345, uint64_t{1} << 62}}};
  for (const auto& [numerator, denominator] : kExponents) {
    Words words("bernoulli" + std::to_string(numerator));
    int64_t successes = 0;
    for (int64_t i = 0; i < kDraws; ++i) {
      successes += SampleBernoulliExp(numerator, denominator, words) ? 1 : 0;
    }
    const double p = std::exp(-static_cast<double>(numerator) / static_cast<double>(denominator));
    EXPECT_LE(std::abs(static_cast<double>(successes) - kDraws * p), kNormalQuantile * std::sqrt(kDraws * p * (1 - p)))
        << numerator << "/" << denominator;
  }
}

TEST(DiscreteGaussianStatisticalTest, DiscreteLaplaceHasItsDistribution) {
  constexpr int64_t kDraws = 1'000'000;
  for (uint32_t scale : {1, 2, 7, 30}) {
    SCOPED_TRACE(scale);
    Words words("laplace" + std::to_string(scale));
    const auto counts = Count(kDraws, [&] { return SampleDiscreteLaplace(scale, words); });
    ExpectCounts(counts, Normalised(40 * int64_t{scale}, [scale](double y) { return std::abs(y) / scale; }), kDraws);
  }
}

TEST(DiscreteGaussianStatisticalTest, DiscreteGaussianHasItsDistribution) {
  constexpr int64_t kDraws = 1'000'000;
  for (uint32_t sigma : {1, 2, 3, 10, 100}) {
    SCOPED_TRACE(sigma);
    Words words("gaussian" + std::to_string(sigma));
    const auto counts = Count(kDraws, [&] { return SampleDiscreteGaussian(sigma, words); });
    const double variance = static_cast<double>(sigma) * sigma;
    ExpectCounts(counts, Normalised(12 * int64_t{sigma}, [variance](double y) { return y * y / (2 * variance); }),
                 kDraws);
  }
}

// In 8 intervals per sigma, whose probabilities are those of a Gaussian rounded to integers to within 1 / (23
// sigma^2).
TEST(DiscreteGaussianStatisticalTest, LargeSigmasHaveTheirDistribution) {
  constexpr int64_t kDraws = 1'000'000;
  for (uint32_t sigma : {uint32_t{1} << 13, uint32_t{1} << 20, (uint32_t{1} << 31) - 1}) {
    SCOPED_TRACE(sigma);
    Words words("large" + std::to_string(sigma));
    const int64_t width = sigma / 8;
    const auto counts = Count(kDraws, [&] {
      const int64_t y = SampleDiscreteGaussian(sigma, words);
      return y >= 0 ? y / width : -((-y + width - 1) / width);
    });
    std::map<int64_t, double> probabilities;
    for (int64_t bin = -64; bin < 64; ++bin) {
      const double left = (static_cast<double>(bin * width) - 0.5) / sigma;
      probabilities[bin] = Phi(left + static_cast<double>(width) / sigma) - Phi(left);
    }
    ExpectCounts(counts, probabilities, kDraws);
  }
}

// P(X <= count) for X Poisson.
double PoissonCdf(int64_t count, double mean) { return boost::math::gamma_q(static_cast<double>(count) + 1, mean); }

// Beyond 4, 4.5 and 5 sigma about 253, 27 and 2.3 of 4 million are expected.
TEST(DiscreteGaussianStatisticalTest, HasTheTailsOfADiscreteGaussian) {
  constexpr int64_t kDraws = 4'000'000;
  constexpr uint32_t kSigma = 1000;
  constexpr std::array<int64_t, 3> kThresholds = {4000, 4500, 5000};
  const auto probabilities = Normalised(9000, [](double y) { return y * y / (2.0 * kSigma * kSigma); });
  Words words("tails");
  std::array<int64_t, kThresholds.size()> beyond = {};
  for (int64_t i = 0; i < kDraws; ++i) {
    const int64_t y = SampleDiscreteGaussian(kSigma, words);
    for (size_t t = 0; t < kThresholds.size(); ++t) {
      beyond[t] += std::abs(y) > kThresholds[t] ? 1 : 0;
    }
  }
  for (size_t t = 0; t < kThresholds.size(); ++t) {
    double expected = 0;
    for (const auto& [y, probability] : probabilities) {
      expected += std::abs(y) > kThresholds[t] ? kDraws * probability : 0;
    }
    SCOPED_TRACE(::testing::Message() << "beyond " << kThresholds[t] << ": " << beyond[t] << ", expected " << expected);
    EXPECT_GT(PoissonCdf(beyond[t], expected), kFalseFailure / 2);
    EXPECT_GT(beyond[t] == 0 ? 1 : 1 - PoissonCdf(beyond[t] - 1, expected), kFalseFailure / 2);
  }
}

LabelNoise Noise(const std::vector<uint32_t>& sigma_units) {
  return *LabelNoise::Create(SecretKey(std::array<uint8_t, 32>{'s', 't', 'a', 't', 's'}), Sha256("labels"),
                             sigma_units);
}

// The mean over `count` of a statistic with mean zero and variance `variance`, in its standard deviations.
double StandardisedMean(uint64_t count, double variance, const std::function<double(uint64_t)>& statistic) {
  double sum = 0;
  for (uint64_t i = 0; i < count; ++i) {
    sum += statistic(i);
  }
  return sum / std::sqrt(static_cast<double>(count) * variance);
}

TEST(LabelNoiseStatisticalTest, HasTheMomentsOfItsSigma) {
  constexpr uint64_t kRows = 1 << 20;
  const std::vector<uint32_t> sigmas = {uint32_t{1} << 13, 3'000'000, kMaxSigmaUnits};
  LabelNoise noise = Noise(sigmas);
  for (uint32_t release = 0; release < sigmas.size(); ++release) {
    SCOPED_TRACE(release);
    std::vector<double> x(kRows);
    for (uint64_t row = 0; row < kRows; ++row) {
      x[row] = static_cast<double>(noise.At(NoiseRow::OfIndex(row), release)) / sigmas[release];
    }
    const auto power = [&x](uint64_t i, int exponent) { return std::pow(x[i], exponent); };
    EXPECT_LT(std::abs(StandardisedMean(kRows, 1, [&](uint64_t i) { return power(i, 1); })), kNormalQuantile);
    EXPECT_LT(std::abs(StandardisedMean(kRows, 2, [&](uint64_t i) { return power(i, 2) - 1; })), kNormalQuantile);
    EXPECT_LT(std::abs(StandardisedMean(kRows, 15, [&](uint64_t i) { return power(i, 3); })), kNormalQuantile);
    EXPECT_LT(std::abs(StandardisedMean(kRows, 96, [&](uint64_t i) { return power(i, 4) - 3; })), kNormalQuantile);
  }
}

TEST(LabelNoiseStatisticalTest, PositionsAreUncorrelated) {
  constexpr uint64_t kRows = 1 << 18;
  constexpr uint32_t kSigma = uint32_t{1} << 20;
  // The second release's sigma is the same: its noise must not be.
  LabelNoise noise = Noise({kSigma, kSigma, kSigma + 1});
  const auto draw = [&noise](const std::function<NoiseRow(uint64_t)>& row, uint32_t release, uint32_t component) {
    std::vector<double> x(kRows + 1);
    for (uint64_t i = 0; i < x.size(); ++i) {
      x[i] = static_cast<double>(noise.At(row(i), release, component)) / kSigma;
    }
    return x;
  };
  const std::vector<double> x = draw(NoiseRow::OfIndex, 0, 0);
  const std::vector<std::vector<double>> others = {
      {x.begin() + 1, x.end()},
      draw(NoiseRow::OfIndex, 1, 0),
      draw(NoiseRow::OfIndex, 2, 0),
      draw(NoiseRow::OfIndex, 0, 1),
      draw([](uint64_t i) { return NoiseRow::OfIndex(i << 32); }, 0, 0),
      draw([](uint64_t i) { return NoiseRow::OfId(std::to_string(i)); }, 0, 0)};
  for (size_t other = 0; other < others.size(); ++other) {
    SCOPED_TRACE(other);
    const std::vector<double>& y = others[other];
    const uint64_t first = other == 4 ? 1 : 0;  // Row 0 shifted is row 0.
    const uint64_t count = kRows - first;
    EXPECT_LT(std::abs(StandardisedMean(count, 1, [&](uint64_t i) { return x[first + i] * y[first + i]; })),
              kNormalQuantile);
    EXPECT_LT(std::abs(StandardisedMean(count, 4,
                                        [&](uint64_t i) {
                                          const double a = x[first + i];
                                          const double b = y[first + i];
                                          return (a * a - 1) * (b * b - 1);
                                        })),
              kNormalQuantile);
  }
}

}  // namespace
}  // namespace splitveil
