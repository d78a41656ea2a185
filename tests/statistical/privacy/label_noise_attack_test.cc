// Attacks on noisy labels drawn by plan: the best possible one reaches what label_privacy.h promises as the most, and
// no more. Fixed seeds and keys; under random ones each comparison fails by chance with probability 1e-6 at most, the
// whole file with less than 2e-5.
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <gtest/gtest.h>
#include <random>
#include <vector>

#include "common/crypto/label_noise.h"
#include "common/crypto/sha256.h"
#include "common/privacy/label_privacy.h"

namespace splitveil {
namespace {

constexpr double kNormalQuantile = 4.892;  // P(|N(0, 1)| > 4.892) = 1e-6.
constexpr uint64_t kPairs = 200'000;

// P(positive's score > negative's), ties half, of independent pairs: within its error of `auc`.
void ExpectAuc(double auc, const std::function<double(uint64_t row, int label)>& score) {
  double wins = 0;
  for (uint64_t pair = 0; pair < kPairs; ++pair) {
    const double positive = score(2 * pair, 1);
    const double negative = score(2 * pair + 1, 0);
    wins += positive > negative ? 1 : positive == negative ? 0.5 : 0;
  }
  const auto n = static_cast<double>(kPairs);
  EXPECT_LE(std::abs(wins / n - auc), kNormalQuantile * std::sqrt(auc * (1 - auc) / n))
      << wins / n << ", expected " << auc;
}

LabelNoise Draw(const LabelNoisePlan& plan) {
  return *LabelNoise::Create(SecretKey(std::array<uint8_t, 32>{'a', 't', 't', 'a', 'c', 'k'}), Sha256("labels"),
                             plan.sigma_units);
}

TEST(LabelNoiseAttackTest, AucOfTwoGaussiansIsTheBound) {
  std::mt19937_64 random(7);  // NOLINT(cert-msc51-cpp): a fixed seed on purpose.
  std::normal_distribution<double> normal;
  for (double mu : {0.2, 1.0, 2.0}) {
    ExpectAuc(GaussianPrivacy::FromMu(mu)->AucBound(),
              [&](uint64_t, int label) { return normal(random) + mu * label; });
  }
}

// Sums the releases weighted by precision, the sufficient statistic.
TEST(LabelNoiseAttackTest, AllReleasesTogetherReachTheBoundOfTheRun) {
  for (const NoiseSchedule schedule : {NoiseSchedule::kConstant, NoiseSchedule::kGrowing}) {
    LabelNoisePlanOptions options;
    options.strength = RunAucBound{0.7};
    options.releases = 4;
    options.schedule = schedule;
    options.noise_growth_per_release = 2;
    const auto plan = PlanLabelNoise(options);
    ASSERT_TRUE(plan.ok()) << plan.status();
    LabelNoise noise = Draw(*plan);
    ExpectAuc(plan->run.AucBound(), [&](uint64_t row, int label) {
      double score = 0;
      for (uint32_t release = 0; release < noise.releases(); ++release) {
        const double sigma = noise.sigma_units(release);
        const int64_t noisy = LabelOnGrid(label) + noise.At(NoiseRow::OfIndex(row), release);
        score += static_cast<double>(noisy) / (sigma * sigma);
      }
      return score;
    });
  }
}

TEST(LabelNoiseAttackTest, AskingAgainForTheSameReleaseTellsNothingMore) {
  LabelNoisePlanOptions options;
  options.strength = RunMu{1};
  const auto plan = PlanLabelNoise(options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  LabelNoise noise = Draw(*plan);
  ExpectAuc(plan->run.AucBound(), [&](uint64_t row, int label) {
    int64_t sum = 0;
    for (int request = 0; request < 4; ++request) {
      sum += LabelOnGrid(label) + noise.At(NoiseRow::OfIndex(row), 0);
    }
    return static_cast<double>(sum);
  });
}

// Two classes of five, each with noise in all of its components: the difference of two of them is what tells.
TEST(LabelNoiseAttackTest, OneHotLabelsReachTheBoundOfTheRun) {
  LabelNoisePlanOptions options;
  options.label_kind = LabelKind::kOneHot;
  options.strength = RunMu{1.2};
  const auto plan = PlanLabelNoise(options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  LabelNoise noise = Draw(*plan);
  ExpectAuc(plan->run.AucBound(), [&](uint64_t row, int label) {
    std::array<int64_t, 5> noisy;
    for (uint32_t component = 0; component < noisy.size(); ++component) {
      const bool one = component == (label != 0 ? 3 : 1);
      noisy[component] = (one ? kLabelGridUnit : 0) + noise.At(NoiseRow::OfIndex(row), 0, component);
    }
    return static_cast<double>(noisy[3] - noisy[1]);
  });
}

}  // namespace
}  // namespace splitveil
