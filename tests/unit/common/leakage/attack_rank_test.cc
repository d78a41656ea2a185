#include "common/leakage/attack_rank.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace splitveil {
namespace {

using ::testing::ElementsAre;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

MeasuredAttack Attack(const std::string& layer, const std::string& attack, double mean, double p95,
                      double pooled = kNan) {
  return {layer, attack, {mean, 0.01, p95, 10}, pooled};
}

std::vector<std::string> Sorted(std::vector<MeasuredAttack> attacks) {
  std::mt19937_64 random(3);  // NOLINT(cert-msc51-cpp): a fixed seed on purpose.
  std::shuffle(attacks.begin(), attacks.end(), random);
  std::sort(attacks.begin(), attacks.end(), IsStronger);
  std::vector<std::string> names;
  for (const MeasuredAttack& attack : attacks) {
    names.push_back(attack.layer + "/" + attack.attack);
  }
  return names;
}

TEST(MeasuredAttackTest, ItsFigureIsTheLargerOfTheWorstBatchesAndTheLastEpoch) {
  EXPECT_EQ(Attack("cut", "norm", 0.6, 0.7).auc(), 0.7);
  EXPECT_EQ(Attack("cut", "norm", 0.6, 0.7, 0.65).auc(), 0.7);
  EXPECT_EQ(Attack("cut", "norm", 0.6, 0.7, 0.1).auc(), 0.9);  // Inverted.
  EXPECT_EQ((MeasuredAttack{"cut", "norm", {}, kNan}).auc(), 0);
}

TEST(MeasuredAttackTest, OfACumulativeAttackTheLastEpochCounts) {
  EXPECT_EQ(Attack("cut", "cumulative_direction", 0.7, 0.793, 0.782).auc(), 0.782);
  EXPECT_EQ(Attack("cut", "cumulative_direction", 0.7, 0.793).auc(), 0.793);  // Where nobody pooled it.
}

TEST(IsStrongerTest, PutsTheStrongestFirstWhateverItsLayer) {
  EXPECT_THAT(Sorted({Attack("first", "norm", 0.9, 0.95), Attack("cut", "norm", 0.6, 0.7),
                      Attack("cut", "spectral", 0.5, 0.6, 0.8)}),
              ElementsAre("first/norm", "cut/spectral", "cut/norm"));
}

TEST(IsStrongerTest, OfEqualFiguresTheHigherMeanThenWhatNeedsLessThenTheCut) {
  EXPECT_THAT(
      Sorted({Attack("cut", "norm", 0.6, 0.9), Attack("cut", "cosine", 0.8, 0.9), Attack("first", "spectral", 0.8, 0.9),
              Attack("cut", "residual_norm", 0.8, 0.9), Attack("cut", "likelihood_ratio", 0.8, 0.9)}),
      ElementsAre("cut/residual_norm", "first/spectral", "cut/cosine", "cut/likelihood_ratio", "cut/norm"));
}

TEST(IsStrongerTest, RoundingDoesNotDecide) {
  EXPECT_THAT(Sorted({Attack("cut", "norm", 0.8, 0.9 - 1e-12), Attack("cut", "residual_norm", 0.9, 0.9 - 2e-12)}),
              ElementsAre("cut/residual_norm", "cut/norm"));
}

TEST(IsStrongerTest, AttacksThatReadNoGradientComeAfterThoseThatDo) {
  EXPECT_THAT(Sorted({Attack("cut", "activation_clusters", 0.9, 0.95), Attack("cut", "model_completion", 0, 0, 0.99),
                      Attack("cut", "norm", 0.5, 0.51)}),
              ElementsAre("cut/norm", "cut/activation_clusters", "cut/model_completion"));
}

TEST(AttackNeedsTest, AreThoseOfTheTraits) {
  for (const char* unaided : {"norm", "cumulative_spectral", "activation_clusters"}) {
    EXPECT_TRUE(NeedsNoSideInformation(unaided)) << unaided;
  }
  for (const char* aided : {"cosine", "hint_distance_3", "likelihood_ratio", "model_completion", "homebrew"}) {
    EXPECT_FALSE(NeedsNoSideInformation(aided)) << aided;
  }
  EXPECT_FALSE(ReadsGradients("activation_clusters"));
  EXPECT_TRUE(ReadsGradients("hint_distance_3"));
  EXPECT_TRUE(ReadsGradients("homebrew"));
  EXPECT_TRUE(UsesGivenLabels("features_only"));
  EXPECT_FALSE(UsesGivenLabels("cosine"));
  EXPECT_TRUE(IsCumulativeAttack("cumulative_direction"));
  EXPECT_FALSE(IsCumulativeAttack("cumulative_homebrew"));
}

}  // namespace
}  // namespace splitveil
