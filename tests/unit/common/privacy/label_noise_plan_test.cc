#include <algorithm>
#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "common/crypto/label_noise.h"
#include "common/privacy/label_privacy.h"

namespace splitveil {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint32_t kUnit = uint32_t{1} << 20;
constexpr double kGrid = kUnit;

LabelNoisePlanOptions Options(LabelNoiseStrength strength, uint32_t releases = 1) {
  LabelNoisePlanOptions options;
  options.strength = strength;
  options.releases = releases;
  return options;
}

// Of sigmas rounded up to the grid: mu is smaller by a share of 2^-20 / sigma at most.
void ExpectMu(const LabelNoisePlan& plan, double mu) {
  double least = std::numeric_limits<double>::infinity();
  for (const uint32_t units : plan.sigma_units) {
    least = std::min(least, units / kGrid);
  }
  EXPECT_LE(plan.run.mu(), mu * (1 + 1e-15));
  EXPECT_GE(plan.run.mu(), mu * (1 - 0x1p-20 / least));
}

TEST(LabelNoisePlanTest, ConstantNoiseSharesTheBudgetEvenly) {
  const auto plan = PlanLabelNoise(Options(RunMu{1}, 4));
  ASSERT_TRUE(plan.ok()) << plan.status();
  // sigma = sqrt(4) / 1.
  EXPECT_THAT(plan->sigma_units, ElementsAre(2 * kUnit, 2 * kUnit, 2 * kUnit, 2 * kUnit));
  EXPECT_DOUBLE_EQ(plan->run.mu(), 1);
}

TEST(LabelNoisePlanTest, OneHotLabelsTakeMoreNoiseByTheRootOfTwo) {
  LabelNoisePlanOptions options = Options(RunMu{1});
  options.label_kind = LabelKind::kOneHot;
  const auto plan = PlanLabelNoise(options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(plan->sigma_units, ElementsAre(1482911));  // ceil(2^20 sqrt(2)) = ceil(1482910.4)
  ExpectMu(*plan, 1);
}

TEST(LabelNoisePlanTest, GrowingNoiseHasItsRatioAndMeetsTheBudget) {
  for (double growth : {0.5, 1.0, 1.5, 4.0}) {
    LabelNoisePlanOptions options = Options(RunMu{0.8}, 6);
    options.schedule = NoiseSchedule::kGrowing;
    options.noise_growth_per_release = growth;
    const auto plan = PlanLabelNoise(options);
    ASSERT_TRUE(plan.ok()) << plan.status();
    ASSERT_EQ(plan->sigma_units.size(), 6);
    ExpectMu(*plan, 0.8);
    for (size_t i = 1; i < plan->sigma_units.size(); ++i) {
      const double ratio = static_cast<double>(plan->sigma_units[i]) / plan->sigma_units[i - 1];
      EXPECT_NEAR(ratio * ratio, growth, 1e-5);
    }
    double sum = 0;
    for (int i = 0; i < 6; ++i) {
      sum += std::pow(growth, -i);
    }
    EXPECT_NEAR(plan->sigma_units[0] / kGrid, std::sqrt(sum) / 0.8, 1e-6);
  }
}

TEST(LabelNoisePlanTest, FrozenReleasesTakeNothingOfTheBudget) {
  LabelNoisePlanOptions options = Options(RunMu{1}, 100);
  options.schedule = NoiseSchedule::kFirstThenFrozen;
  options.noisy_releases = 4;
  const auto plan = PlanLabelNoise(options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->sigma_units, PlanLabelNoise(Options(RunMu{1}, 4))->sigma_units);
}

TEST(LabelNoisePlanTest, SigmaIsThatOfTheFirstRelease) {
  const auto constant = PlanLabelNoise(Options(FirstReleaseSigma{3}, 9));
  ASSERT_TRUE(constant.ok()) << constant.status();
  EXPECT_THAT(constant->sigma_units, Each(3 * kUnit));
  EXPECT_DOUBLE_EQ(constant->run.mu(), 1);
  LabelNoisePlanOptions options = Options(FirstReleaseSigma{3}, 3);
  options.schedule = NoiseSchedule::kGrowing;
  options.noise_growth_per_release = 4;
  EXPECT_THAT(PlanLabelNoise(options)->sigma_units, ElementsAre(3 * kUnit, 6 * kUnit, 12 * kUnit));
}

TEST(LabelNoisePlanTest, EpsilonAndDeltaAreKeptAndUsedUp) {
  for (double epsilon : {0.1, 1.0, 8.0}) {
    for (double delta : {1e-8, 1e-5, 0.01}) {
      const auto plan = PlanLabelNoise(Options(RunEpsilonDelta{epsilon, delta}, 10));
      ASSERT_TRUE(plan.ok()) << plan.status();
      EXPECT_LE(plan->run.DeltaAt(epsilon), delta) << epsilon;
      EXPECT_GT(plan->run.DeltaAt(epsilon), delta * (1 - 2e-4)) << epsilon << " " << delta;
    }
  }
}

TEST(LabelNoisePlanTest, EpsilonAndDeltaHaveTheKnownMu) {
  ExpectMu(*PlanLabelNoise(Options(RunEpsilonDelta{1, 0.12693673750664395}, 5)), 1);
}

TEST(LabelNoisePlanTest, AnAucBoundIsKeptAndUsedUp) {
  for (double auc : {0.51, 0.6, 0.7602499389065233, 0.9}) {
    const auto plan = PlanLabelNoise(Options(RunAucBound{auc}, 7));
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_LE(plan->run.AucBound(), auc + 1e-15);
    EXPECT_GT(plan->run.AucBound(), auc - 1e-6);
    ExpectMu(*plan, std::sqrt(2) * NormalQuantile(auc));
  }
}

TEST(LabelNoisePlanTest, GoesBackFromSigmasToMu) {
  LabelNoisePlanOptions options = Options(RunAucBound{0.7}, 12);
  options.schedule = NoiseSchedule::kGrowing;
  options.noise_growth_per_release = 1.3;
  options.label_kind = LabelKind::kOneHot;
  const auto plan = PlanLabelNoise(options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  std::vector<double> sigmas;
  for (const uint32_t units : plan->sigma_units) {
    sigmas.push_back(units / kGrid);
  }
  const auto privacy = PrivacyOfSigmas(LabelKind::kOneHot, sigmas);
  ASSERT_TRUE(privacy.ok()) << privacy.status();
  EXPECT_EQ(privacy->mu(), plan->run.mu());
  EXPECT_EQ(privacy->slack(), plan->run.slack());
  EXPECT_DOUBLE_EQ(PrivacyOfSigmas(LabelKind::kBinary, {1, 2})->mu(), std::sqrt(1.25));
  EXPECT_EQ(PrivacyOfSigmas(LabelKind::kBinary, {})->mu(), 0);
}

TEST(LabelNoisePlanTest, PlansCanBeDrawn) {
  const auto plan = PlanLabelNoise(Options(RunAucBound{0.7}, 3));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_TRUE(LabelNoise::Create(SecretKey::Generate(), {}, plan->sigma_units).ok());
}

std::string Refusal(const LabelNoisePlanOptions& options) {
  const absl::Status status = PlanLabelNoise(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

TEST(LabelNoisePlanTest, RefusesStrengthsOutOfRange) {
  const double nan = std::nan("");
  const double infinity = std::numeric_limits<double>::infinity();
  for (double mu : {0.0, -1.0, nan, infinity}) {
    EXPECT_THAT(Refusal(Options(RunMu{mu})), HasSubstr("mu: expected a positive, finite number, found"));
  }
  for (double auc : {0.5, 0.3, 1.0, nan}) {
    EXPECT_THAT(Refusal(Options(RunAucBound{auc})), HasSubstr("auc_bound: expected above"));
  }
  for (double sigma : {0.0, -1.0, nan, 2048.0}) {
    EXPECT_THAT(Refusal(Options(FirstReleaseSigma{sigma})), HasSubstr("release 0: "));
  }
  for (double delta : {0.0, 1.0, nan}) {
    EXPECT_THAT(Refusal(Options(RunEpsilonDelta{1, delta})), HasSubstr("0 < delta < 1"));
  }
  EXPECT_THAT(Refusal(Options(RunEpsilonDelta{-1, 0.1})), HasSubstr("epsilon >= 0"));
}

TEST(LabelNoisePlanTest, RefusesADeltaThatTheSlackTakesAway) {
  EXPECT_THAT(Refusal(Options(RunEpsilonDelta{1, 1e-301})), HasSubstr("by which discrete noise differs"));
}

TEST(LabelNoisePlanTest, RefusesNoiseThatCannotBeDrawn) {
  EXPECT_THAT(Refusal(Options(RunMu{200})), HasSubstr("release 0: label noise: expected sigma in [0.0078125, 2048)"));
  EXPECT_THAT(Refusal(Options(RunMu{1e-4})), HasSubstr("found 10000"));
  LabelNoisePlanOptions options = Options(FirstReleaseSigma{1}, 30);
  options.schedule = NoiseSchedule::kGrowing;
  options.noise_growth_per_release = 4;
  EXPECT_THAT(Refusal(options), HasSubstr("release 11: "));
}

// A privacy account tells releases apart by their noise.
TEST(LabelNoisePlanTest, IsTheSameNoiseInWhicheverWayItIsSaid) {
  std::mt19937_64 random(5);
  std::uniform_real_distribution<double> logarithm(-1, 4);
  for (int i = 0; i < 300; ++i) {
    const double sigma = i == 0 ? 1.35 : std::exp(logarithm(random));
    const auto plan = PlanLabelNoise(Options(FirstReleaseSigma{sigma}));
    ASSERT_TRUE(plan.ok()) << plan.status();
    for (const LabelNoiseStrength& same :
         {LabelNoiseStrength(FirstReleaseSigma{plan->sigma_units.front() / kGrid}),
          LabelNoiseStrength(RunMu{plan->run.mu()}), LabelNoiseStrength(RunAucBound{plan->run.AucBound()}),
          LabelNoiseStrength(RunEpsilonDelta{plan->run.EpsilonAt(1e-5), 1e-5})}) {
      EXPECT_EQ(PlanLabelNoise(Options(same))->sigma_units, plan->sigma_units) << sigma << ", way " << same.index();
    }
  }
}

TEST(LabelNoisePlanTest, RefusesSchedulesOutOfRange) {
  EXPECT_THAT(Refusal(Options(RunMu{1}, 0)), HasSubstr("releases: expected 1 to 1048576, found 0"));
  EXPECT_THAT(Refusal(Options(RunMu{1}, (1 << 20) + 1)), HasSubstr("releases: expected"));
  LabelNoisePlanOptions options = Options(RunMu{1}, 5);
  options.schedule = NoiseSchedule::kFirstThenFrozen;
  for (uint32_t noisy : {0, 6}) {
    options.noisy_releases = noisy;
    EXPECT_THAT(Refusal(options), HasSubstr("noisy_releases: expected 1 to the releases, 5, found"));
  }
  options.schedule = NoiseSchedule::kGrowing;
  for (double growth : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    options.noise_growth_per_release = growth;
    EXPECT_THAT(Refusal(options), HasSubstr("noise_growth_per_release: expected"));
  }
}

TEST(LabelNoisePlanTest, RefusesToTellThePrivacyOfNoNoise) {
  EXPECT_EQ(PrivacyOfSigmas(LabelKind::kBinary, {1, 0}).status().message(),
            "label noise plan: release 1: label noise: expected sigma in [0.0078125, 2048), found 0");
}

}  // namespace
}  // namespace splitveil
