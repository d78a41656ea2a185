#include "common/privacy/label_privacy.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <vector>

#include "common/crypto/label_noise.h"

namespace splitveil {
namespace {

constexpr uint32_t kUnit = uint32_t{1} << 20;

LabelPrivacy Of(LabelKind kind, const std::vector<uint32_t>& sigma_units) {
  return *LabelPrivacy::OfReleases(kind, sigma_units);
}

// e^(-y^2 / (2 sigma^2)) / sum for |y| <= reach; entry y + reach.
std::vector<double> DiscreteGaussian(uint32_t sigma, int64_t reach) {
  const double variance = static_cast<double>(sigma) * sigma;
  std::vector<double> masses;
  double sum = 0;
  for (int64_t y = -reach; y <= reach; ++y) {
    masses.push_back(std::exp(-static_cast<double>(y) * static_cast<double>(y) / (2 * variance)));
    sum += masses.back();
  }
  for (double& mass : masses) {
    mass /= sum;
  }
  return masses;
}

// P(N(0, sigma^2) rounded to the grid is y).
double RoundedGaussian(double sigma, int64_t y) {
  const double nearest = std::abs(static_cast<double>(y)) - 0.5;
  return NormalCdf(-nearest / sigma) - NormalCdf(-(nearest + 1) / sigma);
}

TEST(RoundingSlackTest, IsAboveTheLogRatioOfEveryOutcome) {
  for (uint32_t sigma : {100, 1000, 20'000}) {
    const int64_t reach = 37 * int64_t{sigma};  // Beyond, the probabilities leave the range of a double.
    const std::vector<double> masses = DiscreteGaussian(sigma, reach);
    double largest = 0;
    double smallest = 0;
    for (int64_t y = -reach; y <= reach; y += sigma / 100) {
      const double log_ratio = std::log(masses[y + reach] / RoundedGaussian(sigma, y));
      largest = std::max(largest, log_ratio);
      smallest = std::min(smallest, log_ratio);
    }
    const double variance = static_cast<double>(sigma) * sigma;
    EXPECT_LE(largest, 1 / (23 * variance)) << sigma;  // u
    EXPECT_LE(largest - smallest, RoundingSlack(sigma)) << sigma;
    // T^2 / 24 at T = 37: the bound is no larger than it need be. 2^20 is the shift that it allows for.
    EXPECT_NEAR(-smallest * variance, 37.0 * 37 / 24, 1) << sigma;
  }
  EXPECT_EQ(RoundingSlack(0), std::numeric_limits<double>::infinity());
}

TEST(RoundingSlackTest, IsSmallForAnySigmaThatMayBeDrawn) {
  EXPECT_LT(RoundingSlack(kMinSigmaUnits), 2e-5);
  EXPECT_LT(RoundingSlack(kUnit), 1e-10);
  for (uint32_t releases : {1, 100, 10'000}) {
    const auto sigma = static_cast<uint32_t>(std::ceil(std::sqrt(releases) * kUnit));
    EXPECT_NEAR(Of(LabelKind::kBinary, std::vector<uint32_t>(releases, sigma)).slack(), 6.2e-11, 3e-12) << releases;
  }
}

TEST(LabelPrivacyTest, ExactDeltaOfTheDrawnNoiseIsAsPromised) {
  // sum (P1 - e^epsilon P0)^+ for labels 0 and 1, with the least noise that still hides anything.
  constexpr uint32_t kSigma = uint32_t{1} << 18;
  constexpr int64_t kReach = 12 * int64_t{kSigma};
  const std::vector<double> masses = DiscreteGaussian(kSigma, kReach);
  const LabelPrivacy privacy = Of(LabelKind::kBinary, {kSigma});
  for (double epsilon : {1.0, 20.0}) {
    double delta = 0;
    for (int64_t y = 0; y <= kReach; ++y) {
      const double gap = masses[y - kLabelGridUnit + kReach] - std::exp(epsilon) * masses[y + kReach];
      delta += std::max(0.0, gap);
    }
    EXPECT_LE(delta, privacy.DeltaAt(epsilon) * (1 + 1e-10)) << epsilon;
    EXPECT_NEAR(delta / privacy.DeltaAt(epsilon), 1, 1e-8) << epsilon;
  }
}

TEST(LabelPrivacyTest, ExactAucOfTheDrawnNoiseIsAsPromised) {
  constexpr uint32_t kSigma = uint32_t{1} << 18;
  constexpr int64_t kReach = 8 * int64_t{kSigma};
  const std::vector<double> masses = DiscreteGaussian(kSigma, kReach);
  double auc = 0;
  double above = 0;  // P(noise + 1 > y).
  for (int64_t y = kReach + kLabelGridUnit; y >= -kReach; --y) {
    const double here = y - kLabelGridUnit >= -kReach ? masses[y - kLabelGridUnit + kReach] : 0;
    auc += y <= kReach ? masses[y + kReach] * (above + here / 2) : 0;
    above += here;
  }
  const LabelPrivacy privacy = Of(LabelKind::kBinary, {kSigma});
  EXPECT_NEAR(privacy.mu(), 4, 1e-14);
  EXPECT_NEAR(auc, privacy.AucBound(), 2 * privacy.slack());
  EXPECT_LE(auc, privacy.AucBound() + 1e-11);  // What eight million roundings may add up to.
}

TEST(LabelPrivacyTest, MuHasItsClosedForms) {
  EXPECT_DOUBLE_EQ(Of(LabelKind::kBinary, {2 * kUnit}).mu(), 0.5);
  EXPECT_DOUBLE_EQ(Of(LabelKind::kUnitInterval, {2 * kUnit}).mu(), 0.5);
  EXPECT_DOUBLE_EQ(Of(LabelKind::kOneHot, {2 * kUnit}).mu(), std::sqrt(0.5));
  EXPECT_DOUBLE_EQ(Of(LabelKind::kBinary, {2 * kUnit, 2 * kUnit, 2 * kUnit, 2 * kUnit}).mu(), 1);
  EXPECT_DOUBLE_EQ(Of(LabelKind::kBinary, {kUnit, 2 * kUnit}).mu(), std::sqrt(1.25));
  EXPECT_EQ(Of(LabelKind::kBinary, {}).mu(), 0);
  EXPECT_EQ(LabelSensitivity(LabelKind::kOneHot), std::sqrt(2));
}

TEST(LabelPrivacyTest, SlackAddsUpOverReleasesAndChangedComponents) {
  const double one = RoundingSlack(kUnit);
  EXPECT_DOUBLE_EQ(Of(LabelKind::kBinary, {kUnit}).slack(), one);
  EXPECT_DOUBLE_EQ(Of(LabelKind::kOneHot, {kUnit}).slack(), 2 * one);
  EXPECT_DOUBLE_EQ(Of(LabelKind::kBinary, {kUnit, kUnit, kUnit}).slack(), 3 * one);
  EXPECT_EQ(LabelPrivacy().slack(), 0);
  EXPECT_EQ(LabelPrivacy().AucBound(), 0.5);
  EXPECT_EQ(LabelPrivacy().TprBound(0.25), 0.25);
}

TEST(LabelPrivacyTest, ComposesRuns) {
  const LabelPrivacy first = Of(LabelKind::kBinary, {kUnit, 3 * kUnit});
  const LabelPrivacy second = Of(LabelKind::kBinary, {2 * kUnit});
  const LabelPrivacy both = LabelPrivacy::Compose({first, second});
  EXPECT_DOUBLE_EQ(both.mu(), Of(LabelKind::kBinary, {kUnit, 3 * kUnit, 2 * kUnit}).mu());
  EXPECT_DOUBLE_EQ(both.slack(), first.slack() + second.slack());
}

TEST(LabelPrivacyTest, BoundsIncludeTheSlack) {
  // Little noise, and so a slack that shows: mu is 4 sqrt(2).
  const LabelPrivacy privacy = Of(LabelKind::kOneHot, {kUnit / 4});
  const GaussianPrivacy& gaussian = privacy.gaussian();
  const double slack = privacy.slack();
  EXPECT_GT(slack, 1e-9);
  EXPECT_DOUBLE_EQ(privacy.AucBound(), std::min(1.0, gaussian.AucBound() + slack));
  EXPECT_DOUBLE_EQ(privacy.TprBound(1e-20), std::exp(slack) * gaussian.TprBound(1e-20 * std::exp(slack)));
  EXPECT_GT(privacy.TprBound(1e-20), gaussian.TprBound(1e-20));
  EXPECT_LT(privacy.TprBound(0), 1e-200);
  EXPECT_EQ(privacy.TprBound(1), 1);
  EXPECT_DOUBLE_EQ(privacy.DeltaAt(40), std::exp(slack) * gaussian.DeltaAt(40 - slack));
  EXPECT_GT(privacy.DeltaAt(40), gaussian.DeltaAt(40));
  EXPECT_DOUBLE_EQ(privacy.DeltaAt(slack / 2), std::exp(slack) * (gaussian.DeltaAt(0) + slack / 2));
  for (double wrong : {-1.0, std::nan("")}) {
    EXPECT_EQ(privacy.DeltaAt(wrong), 1);
    EXPECT_EQ(privacy.TprBound(wrong), 1);
  }
  const LabelPrivacy usual = Of(LabelKind::kBinary, {kUnit});
  EXPECT_DOUBLE_EQ(usual.AucBound(), usual.gaussian().AucBound() + usual.slack());
  EXPECT_DOUBLE_EQ(usual.DeltaAt(0), usual.gaussian().DeltaAt(0) + usual.slack() * (1 + usual.gaussian().DeltaAt(0)));
}

TEST(LabelPrivacyTest, EpsilonIsTheLeastThatHoldsWithTheSlack) {
  for (uint32_t sigma : {kUnit / 8, kUnit, 5 * kUnit}) {
    const LabelPrivacy privacy = Of(LabelKind::kBinary, {sigma, sigma});
    for (double delta : {0.01, 1e-5, 1e-100}) {
      const double epsilon = privacy.EpsilonAt(delta);
      EXPECT_LE(privacy.DeltaAt(epsilon), delta);
      EXPECT_GT(privacy.DeltaAt(epsilon * (1 - 1e-6)), delta) << sigma << " " << delta;
      EXPECT_GE(epsilon, privacy.gaussian().EpsilonAt(delta));
    }
  }
  EXPECT_EQ(Of(LabelKind::kBinary, {kUnit}).EpsilonAt(1), 0);
  EXPECT_EQ(LabelPrivacy().EpsilonAt(0), 0);
}

TEST(LabelPrivacyTest, EpsilonIsInfiniteWhereNoneHolds) {
  const double infinity = std::numeric_limits<double>::infinity();
  const LabelPrivacy privacy = Of(LabelKind::kBinary, {kUnit});
  EXPECT_EQ(privacy.EpsilonAt(1e-301), infinity);
  EXPECT_EQ(privacy.EpsilonAt(0), infinity);
  EXPECT_EQ(privacy.EpsilonAt(std::nan("")), infinity);
}

TEST(LabelPrivacyTest, MuForEpsilonAndDeltaTakesTheSlackOff) {
  for (double slack : {0.0, 1e-10, 1e-3}) {
    for (double epsilon : {0.0, 1.0, 30.0}) {
      const auto allowed = LabelPrivacy::MuForEpsilonDelta(epsilon, 0.01, slack);
      ASSERT_TRUE(allowed.ok()) << allowed.status();
      const double left = epsilon - slack;
      const double delta = left >= 0 ? allowed->DeltaAt(left) : allowed->DeltaAt(0) - left;
      EXPECT_LE(std::exp(slack) * delta, 0.01);
      EXPECT_NEAR(std::exp(slack) * delta, 0.01, 1e-11) << slack << " " << epsilon;
    }
  }
  EXPECT_EQ(LabelPrivacy::MuForEpsilonDelta(0, 1e-4, 1e-3).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(LabelPrivacy::MuForEpsilonDelta(1, 0, 1e-3).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(LabelPrivacy::MuForEpsilonDelta(std::nan(""), 0.1, 1e-3).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(LabelPrivacyTest, RefusesReleasesWithoutNoise) {
  const std::vector<uint32_t> sigma_units = {kUnit, 0};
  const auto privacy = LabelPrivacy::OfReleases(LabelKind::kBinary, sigma_units);
  EXPECT_EQ(privacy.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(privacy.status().message(), "label privacy: release 1: expected a sigma above 0, found 0");
}

}  // namespace
}  // namespace splitveil
