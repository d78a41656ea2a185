// Tries to tell SecureGaussian from independent N(0, 1) numbers. The keys are fixed, so a result repeats; under a
// random key each single comparison would fail by chance with probability 1e-6 at most (kFalseFailure), the whole file
// with less than 1e-4.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <utility>
#include <vector>

#include "common/crypto/secure_gaussian.h"

namespace splitveil {
namespace {

constexpr double kFalseFailure = 1e-6;
constexpr double kNormalQuantile = 4.892;      // P(|N(0, 1)| > 4.892) = 1e-6.
constexpr double kKolmogorovQuantile = 2.694;  // 2 exp(-2 * 2.694^2) = 1e-6.
constexpr double kPi = 3.14159265358979323846;
constexpr size_t kDraws = size_t{1} << 21;
constexpr size_t kColumns = 128;

std::unique_ptr<SecureGaussian> Generator() {
  return *SecureGaussian::Create(SecretKey(std::array<uint8_t, 32>{'s', 't', 'a', 't', 'i', 's', 't', 'i', 'c', 's'}));
}

std::vector<float> Draw(const NoisePosition& position, size_t count = kDraws) {
  std::vector<float> normals(count);
  Generator()->Fill(position, 0, absl::MakeSpan(normals));
  return normals;
}

// The mean over `count` of a statistic with mean zero and variance `variance` under the hypothesis, in its standard
// deviations. By the central limit theorem N(0, 1): count is 2^20 at least.
double StandardisedMean(size_t count, double variance, const std::function<double(size_t)>& statistic) {
  double sum = 0;
  for (size_t i = 0; i < count; ++i) {
    sum += statistic(i);
  }
  return sum / std::sqrt(static_cast<double>(count) * variance);
}

// sqrt(n) sup |F_n - F| of values that are uniform in [0, 1] under the hypothesis.
double KolmogorovSmirnov(std::vector<double> uniforms) {
  std::sort(uniforms.begin(), uniforms.end());
  const auto n = static_cast<double>(uniforms.size());
  double distance = 0;
  for (size_t i = 0; i < uniforms.size(); ++i) {
    const auto rank = static_cast<double>(i);
    distance = std::max({distance, (rank + 1) / n - uniforms[i], uniforms[i] - rank / n});
  }
  return std::sqrt(n) * distance;
}

double Phi(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

// P(X <= count) for X Poisson.
double PoissonCdf(int64_t count, double mean) {
  double sum = 0;
  for (int64_t event = 0; event <= count; ++event) {
    const auto k = static_cast<double>(event);
    sum += std::exp(k * std::log(mean) - mean - std::lgamma(k + 1));
  }
  return sum;
}

TEST(SecureGaussianStatisticalTest, HasTheMomentsOfANormal) {
  const std::vector<float> x = Draw({0, 0, 0});
  const auto power = [&x](size_t i, int exponent) { return std::pow(static_cast<double>(x[i]), exponent); };
  EXPECT_LT(std::abs(StandardisedMean(kDraws, 1, [&](size_t i) { return power(i, 1); })), kNormalQuantile);
  EXPECT_LT(std::abs(StandardisedMean(kDraws, 2, [&](size_t i) { return power(i, 2) - 1; })), kNormalQuantile);
  EXPECT_LT(std::abs(StandardisedMean(kDraws, 15, [&](size_t i) { return power(i, 3); })), kNormalQuantile);
  EXPECT_LT(std::abs(StandardisedMean(kDraws, 96, [&](size_t i) { return power(i, 4) - 3; })), kNormalQuantile);
}

TEST(SecureGaussianStatisticalTest, HasTheDistributionOfANormal) {
  const std::vector<float> x = Draw({0, 1, 0});
  std::vector<double> uniforms(x.size());
  std::transform(x.begin(), x.end(), uniforms.begin(), Phi);
  EXPECT_LT(KolmogorovSmirnov(std::move(uniforms)), kKolmogorovQuantile);
}

TEST(SecureGaussianStatisticalTest, PairsAreIsotropic) {
  const std::vector<float> x = Draw({0, 2, 0});
  std::vector<double> angles(x.size() / 2);
  std::vector<double> radii(x.size() / 2);
  for (size_t pair = 0; pair < angles.size(); ++pair) {
    const double a = x[2 * pair];
    const double b = x[2 * pair + 1];
    angles[pair] = 0.5 + std::atan2(b, a) / (2 * kPi);
    radii[pair] = std::exp(-0.5 * (a * a + b * b));
  }
  EXPECT_LT(std::abs(StandardisedMean(angles.size(), 1.0 / 144,
                                      [&](size_t i) { return (angles[i] - 0.5) * (radii[i] - 0.5); })),
            kNormalQuantile);
  EXPECT_LT(KolmogorovSmirnov(std::move(angles)), kKolmogorovQuantile);
  EXPECT_LT(KolmogorovSmirnov(std::move(radii)), kKolmogorovQuantile);
}

// Two components that should be independent: no correlation of the values nor of their squares.
void ExpectUncorrelated(size_t count, const std::function<double(size_t)>& x, const std::function<double(size_t)>& y) {
  EXPECT_LT(std::abs(StandardisedMean(count, 1, [&](size_t i) { return x(i) * y(i); })), kNormalQuantile);
  EXPECT_LT(std::abs(StandardisedMean(count, 4, [&](size_t i) { return (x(i) * x(i) - 1) * (y(i) * y(i) - 1); })),
            kNormalQuantile);
}

TEST(SecureGaussianStatisticalTest, ComponentsOfAPositionAreUncorrelated) {
  const std::vector<float> x = Draw({0, 3, 0});
  {
    SCOPED_TRACE("the two of a pair");
    ExpectUncorrelated(
        kDraws / 2, [&](size_t i) { return x[2 * i]; }, [&](size_t i) { return x[2 * i + 1]; });
  }
  for (size_t lag : {size_t{1}, size_t{2}, kColumns, size_t{4096}}) {
    SCOPED_TRACE(lag);
    ExpectUncorrelated(
        kDraws - lag, [&](size_t i) { return x[i]; }, [&](size_t i) { return x[i + lag]; });
  }
}

TEST(SecureGaussianStatisticalTest, PositionsAreUncorrelated) {
  const std::vector<float> x = Draw({0, 0, 0});
  for (const NoisePosition& other : {NoisePosition{1, 0, 0}, NoisePosition{0, 1, 0}, NoisePosition{0, 0, 1}}) {
    const std::vector<float> y = Draw(other);
    ExpectUncorrelated(
        kDraws, [&](size_t i) { return x[i]; }, [&](size_t i) { return y[i]; });
  }
}

// Among 2^30 numbers 7296, 616 and 2.1 are expected beyond 4.5, 5 and 6: uniforms of 24 bits reach 5.9 at most.
TEST(SecureGaussianStatisticalTest, HasTheTailOfANormal) {
  constexpr size_t kFloats = size_t{1} << 17;
  constexpr uint32_t kFills = 1 << 13;
  constexpr std::array<float, 3> kThresholds = {4.5F, 5.0F, 6.0F};
  std::array<int64_t, kThresholds.size()> beyond = {};
  const auto generator = Generator();
  std::vector<float> x(kFloats);
  for (uint32_t batch = 0; batch < kFills; ++batch) {
    generator->Fill({1, batch, 0}, 0, absl::MakeSpan(x));
    for (size_t t = 0; t < kThresholds.size(); ++t) {
      const float threshold = kThresholds[t];
      int32_t count = 0;
      for (float value : x) {
        count += std::abs(value) > threshold ? 1 : 0;
      }
      beyond[t] += count;
    }
  }
  for (size_t t = 0; t < kThresholds.size(); ++t) {
    const double expected = 2 * Phi(-kThresholds[t]) * kFloats * kFills;
    SCOPED_TRACE(::testing::Message() << "beyond " << kThresholds[t] << ": " << beyond[t] << ", expected " << expected);
    EXPECT_GT(PoissonCdf(beyond[t], expected), kFalseFailure / 2);
    EXPECT_GT(1 - PoissonCdf(beyond[t] - 1, expected), kFalseFailure / 2);
  }
}

}  // namespace
}  // namespace splitveil
