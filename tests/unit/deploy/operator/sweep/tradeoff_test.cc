#include "deploy/operator/sweep/tradeoff.h"

#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace splitveil {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

AttackFigure Leak(const std::string& layer, const std::string& attack, double mean, double p95) {
  return {layer, attack, "", {mean, 0, p95, 10}};
}

SweptRun RunOf(const std::string& name, uint64_t seed, std::optional<double> test_auc,
               std::vector<AttackFigure> leaks = {}) {
  SweptRun swept;
  swept.run.protection.name = name;
  swept.run.protection.family = "marvell_s";
  swept.run.seed = seed;
  swept.run.nonlabel_config.mutable_model()->add_layers()->set_name("hidden");
  swept.figures.test.auc = test_auc;
  swept.figures.attacks = std::move(leaks);
  return swept;
}

TEST(LayersAndAttacksTest, TheStrongestOverAllRunsComeFirst) {
  const auto keys =
      LayersAndAttacks({RunOf("a", 1, 0.7,
                              {Leak("cut", "spectral", 0.5, 0.9), Leak("first", "norm", 0.5, 0.6),
                               Leak("cut", "norm", 0.5, 0.6), Leak("cut", "cosine", 0.5, 0.5)}),
                        RunOf("b", 1, 0.7, {Leak("cut", "spectral", 0.5, 0.5), Leak("first", "norm", 0.5, 0.95)})});
  EXPECT_THAT(keys,
              ElementsAre(Pair("first", "norm"), Pair("cut", "spectral"), Pair("cut", "norm"), Pair("cut", "cosine")));
}

TEST(LayersAndAttacksTest, WhatReadsNoGradientComesLast) {
  EXPECT_THAT(LayersAndAttacks(
                  {RunOf("a", 1, 0.7, {Leak("cut", "activation_clusters", 0.9, 0.95), Leak("cut", "norm", 0.5, 0.6)})}),
              ElementsAre(Pair("cut", "norm"), Pair("cut", "activation_clusters")));
}

TEST(LayersAndAttacksTest, OfNoRunAreNone) { EXPECT_THAT(LayersAndAttacks({}), IsEmpty()); }

TEST(SummarizeSeedsTest, JoinsTheSeedsOfAProtectionInTheOrderOfTheFirst) {
  const std::vector<TradeoffPoint> points =
      SummarizeSeeds({RunOf("b", 1, 0.70), RunOf("a", 1, 0.60), RunOf("b", 2, 0.72), RunOf("b", 3, 0.74)});
  ASSERT_THAT(points, SizeIs(2));
  EXPECT_EQ(points[0].name, "b");
  EXPECT_EQ(points[0].seeds, 3);
  EXPECT_DOUBLE_EQ(points[0].test_quality.mean, 0.72);
  EXPECT_EQ(points[0].test_quality.min, 0.70);
  EXPECT_EQ(points[1].seeds, 1);
}

TEST(SummarizeSeedsTest, OneSeedThatExceedsItsBoundIsTheProtections) {
  std::vector<SweptRun> runs = {RunOf("a", 1, 0.7), RunOf("a", 2, 0.7), RunOf("a", 3, 0.7)};
  for (SweptRun& run : runs) {
    run.recorded.of_label_party = run.recorded.bound_tested = true;
    run.recorded.protection = "marvell(s=4)";
    run.recorded.run_auc_bound = 0.7;
    run.recorded.attacks = {Leak("cut", "norm", 0.5, 0.6)};
    run.recorded.guessing = Guessing{0.517, 0.541};
  }
  EXPECT_EQ(SummarizeSeeds(runs)[0].bound_words, "not exceeded by the attacks run here");
  runs[1].recorded.bound_exceeded = 1;
  runs[1].recorded.attacks = {Leak("cut", "spectral", 0.5, 0.9)};
  runs[1].recorded.excesses = {{"cut", "spectral", 0.9, 0.7, {1}, 1}};
  const TradeoffPoint point = SummarizeSeeds(runs)[0];
  EXPECT_EQ(point.bound, BoundState::kExceeded);
  EXPECT_EQ(point.bound_words, "exceeded by Main direction of the batch (1 of 3 seeds)");
  EXPECT_EQ(point.strongest.attack, "spectral");
  EXPECT_DOUBLE_EQ(point.strongest.auc.mean, 0.7);
  EXPECT_DOUBLE_EQ(point.practical.auc.max, 0.9);
  EXPECT_EQ(point.with_side_information.attack, "");
  EXPECT_TRUE(std::isnan(point.with_side_information.auc.mean));
  EXPECT_DOUBLE_EQ(point.guessing_auc_mean.mean, 0.517);
}

TEST(SummarizeSeedsTest, ALeakThatOnlySomeMeasuredIsOfThoseAndNaNForOthers) {
  const std::vector<TradeoffPoint> points = SummarizeSeeds(
      {RunOf("a", 1, 0.7), RunOf("a", 2, 0.7, {Leak("cut", "norm", 0.8, 0.9)}), RunOf("b", 1, std::nullopt)});
  ASSERT_THAT(points, SizeIs(2));
  EXPECT_EQ(points[0].leaks[0].p95.mean, 0.9);
  EXPECT_TRUE(std::isnan(points[1].leaks[0].p95.mean));
  EXPECT_TRUE(std::isnan(points[1].test_quality.mean));
}

TEST(SummarizeSeedsTest, SetsEveryProtectionBesideTheReferencesOfItsSeeds) {
  std::vector<SweptRun> runs = {RunOf("open", 1, 0.72), RunOf("a", 1, 0.70), RunOf("frozen", 1, 0.62),
                                RunOf("open", 2, 0.73), RunOf("a", 2, 0.69), RunOf("frozen", 2, 0.63)};
  for (const size_t i : {0, 3}) {
    runs[i].run.protection.reference = Reference::kNone;
    runs[i + 2].run.protection.reference = Reference::kFrozen;
  }
  EXPECT_EQ(GainOf(runs).state(), GainState::kMeasured);
  const std::vector<TradeoffPoint> points = SummarizeSeeds(runs);
  ASSERT_THAT(points, SizeIs(3));
  EXPECT_NEAR(points[0].kept.share.mean, 1, 1e-12);
  EXPECT_NEAR(points[1].kept.share.mean, 0.7, 1e-12);
  EXPECT_NEAR(points[1].kept.share.min, 0.6, 1e-12);
  EXPECT_NEAR(points[1].kept.none_quality.mean, 0.725, 1e-12);
  EXPECT_NEAR(points[2].kept.share.mean, 0, 1e-12);
  EXPECT_EQ(points[2].reference, Reference::kFrozen);
  EXPECT_EQ(points[2].bound_words, "no gradient is released");
}

TEST(ParetoFrontTest, KeepsWhatNoOtherBeats) {
  //                            best leak, best cost, between, beaten by it, beaten in one and equal in the other
  EXPECT_THAT(ParetoFront({{0.5, 9}, {0.9, 1}, {0.7, 3}, {0.8, 4}, {0.7, 5}}),
              ElementsAre(true, true, true, false, false));
}

TEST(ParetoFrontTest, EqualChoicesStandOrFallTogether) {
  EXPECT_THAT(ParetoFront({{0.6, 2}, {0.6, 2}, {0.7, 3}, {0.7, 3}}), ElementsAre(true, true, false, false));
}

TEST(ParetoFrontTest, OneChoiceIsTheFrontAndNoneHasNone) {
  EXPECT_THAT(ParetoFront({{0.6, 2}}), ElementsAre(true));
  EXPECT_THAT(ParetoFront({}), IsEmpty());
}

TEST(ParetoFrontTest, WhatWasNotMeasuredIsNeverOnItAndBeatsNone) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  EXPECT_THAT(ParetoFront({{kNone, 1}, {0.5, kNone}, {-kInfinite, 0}, {0.7, -kInfinite}, {0.9, 5}}),
              ElementsAre(false, false, false, false, true));
}

TEST(ParetoFrontTest, AgreesWithTheDefinitionOnRandomChoices) {
  std::mt19937_64 random(5);  // NOLINT(cert-msc51-cpp): a fixed seed on purpose.
  for (int round = 0; round < 200; ++round) {
    std::vector<Tradeoff> choices(random() % 12);
    for (Tradeoff& choice : choices) {
      choice = {static_cast<double>(random() % 5), static_cast<double>(random() % 5)};  // Coarse: ties are common.
    }
    const std::vector<bool> front = ParetoFront(choices);
    // The other characterisation: for some weight the least cost among all of at most its leak, and none cheaper in
    // leak.
    for (size_t i = 0; i < choices.size(); ++i) {
      double least_cost = kNone, least_leak = kNone;
      for (const Tradeoff& other : choices) {
        if (other.leak <= choices[i].leak) {
          least_cost = std::fmin(least_cost, other.cost);
        }
        if (other.cost <= choices[i].cost) {
          least_leak = std::fmin(least_leak, other.leak);
        }
      }
      EXPECT_EQ(front[i], choices[i].cost == least_cost && choices[i].leak == least_leak);
    }
  }
}

}  // namespace
}  // namespace splitveil
