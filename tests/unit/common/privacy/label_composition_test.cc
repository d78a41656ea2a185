#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "common/privacy/gaussian_privacy.h"
#include "common/privacy/label_privacy.h"

namespace splitveil {
namespace {

double Kept(double epsilon) { return std::exp(epsilon) / (1 + std::exp(epsilon)); }

// Mann and Whitney's statistic of likelihood ratios, over every pair of outcomes.
double ByEnumeration(const std::vector<double>& epsilons) {
  std::vector<std::pair<double, std::pair<double, double>>> outcomes = {{0, {1, 1}}};
  for (const double epsilon : epsilons) {
    std::vector<std::pair<double, std::pair<double, double>>> next;
    const double kept = Kept(epsilon);
    for (const auto& [ratio, of] : outcomes) {
      next.push_back({ratio + epsilon, {of.first * (1 - kept), of.second * kept}});
      next.push_back({ratio - epsilon, {of.first * kept, of.second * (1 - kept)}});
    }
    outcomes = std::move(next);
  }
  double auc = 0;
  for (const auto& [a, negative] : outcomes) {
    for (const auto& [b, positive] : outcomes) {
      auc += negative.first * positive.second * (std::abs(a - b) < 1e-9 ? 0.5 : b > a ? 1 : 0);
    }
  }
  return auc;
}

TEST(LabelCompositionTest, OneFlipIsTheClosedForm) {
  for (const double epsilon : {0.1, 1.0, 3.0, 30.0}) {
    EXPECT_NEAR(ComposedAucBound(0, {epsilon}), Kept(epsilon), 1e-12) << epsilon;
  }
  EXPECT_EQ(ComposedAucBound(0, {}), 0.5);
}

TEST(LabelCompositionTest, FlipsAreWhatEnumerationGives) {
  const std::vector<std::vector<double>> cases = {
      {1, 1}, {1, 1, 1, 1}, {0.5, 1, 2}, {0.3, 0.3, 0.7, 1.1}, {2, 1, 1}, {0.1, 0.2, 0.3, 0.6, 0.9}};
  for (const std::vector<double>& epsilons : cases) {
    EXPECT_NEAR(ComposedAucBound(0, epsilons), ByEnumeration(epsilons), 1e-9) << epsilons.size();
  }
}

TEST(LabelCompositionTest, GaussianNoiseAloneIsTheGaussianMechanism) {
  for (const double mu : {0.01, 0.5, 1.0, 3.0}) {
    EXPECT_NEAR(ComposedAucBound(mu * mu, {}), NormalCdf(mu / std::sqrt(2.0)), 1e-12) << mu;
  }
  EXPECT_EQ(ComposedAucBound(std::numeric_limits<double>::infinity(), {}), 1);
}

// Four standard deviations of 200,000 pairs: false in one of 16,000 changes of the seed.
TEST(LabelCompositionTest, AMixtureIsWhatTheLikelihoodRatioReads) {
  const double mu = 0.8;
  const std::vector<double> epsilons = {1, 1, 0.4};
  std::mt19937_64 generator(7);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform;
  const auto evidence = [&](bool positive) {  // Log of the likelihood ratio.
    double sum = mu * (positive ? mu : 0) + mu * normal(generator) - mu * mu / 2;
    for (const double epsilon : epsilons) {
      sum += (uniform(generator) < Kept(epsilon)) == positive ? epsilon : -epsilon;
    }
    return sum;
  };
  int wins = 0;
  constexpr int kPairs = 200'000;
  for (int i = 0; i < kPairs; ++i) {
    wins += evidence(true) > evidence(false) ? 1 : 0;
  }
  EXPECT_NEAR(ComposedAucBound(mu * mu, epsilons), static_cast<double>(wins) / kPairs, 4 * 0.5 / std::sqrt(kPairs));
}

TEST(LabelCompositionTest, MoreThanCanBeEnumeratedCountsAsMore) {
  std::vector<double> epsilons;
  for (int i = 0; i < 14; ++i) {  // 3^14 values.
    epsilons.push_back(0.1 + 0.01 * i);
  }
  const double bound = ComposedAucBound(0, epsilons);
  EXPECT_GE(bound, ByEnumeration(std::vector<double>(epsilons.begin(), epsilons.begin() + 10)));
  double gaussian = 0;  // All of them as Gaussian noise.
  for (const double epsilon : epsilons) {
    gaussian += std::pow(2 * NormalQuantile(Kept(epsilon)), 2);
  }
  EXPECT_LE(bound, ComposedAucBound(gaussian, {}));
  // Thousands of one epsilon have few values.
  EXPECT_NEAR(ComposedAucBound(0, std::vector<double>(5000, 0.01)),
              NormalCdf(2 * std::sqrt(2 * 5000.0) * (Kept(0.01) - 0.5)), 1e-3);
}

TEST(LabelCompositionTest, WhatIsNoNumberIsBoundedByOne) {
  EXPECT_EQ(ComposedAucBound(std::nan(""), {}), 1);
  EXPECT_EQ(ComposedAucBound(-1, {}), 1);
  EXPECT_EQ(ComposedAucBound(0, {1, -1}), 1);
  EXPECT_EQ(ComposedAucBound(0, {std::nan("")}), 1);
  EXPECT_EQ(ComposedAucBound(0, {std::numeric_limits<double>::infinity()}), 1);
}

}  // namespace
}  // namespace splitveil
