#include "deploy/operator/sweep/bottom_gain.h"

#include <cmath>
#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace splitveil {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

TEST(BottomGainTest, IsTheMeanOverSeedsWithStudentsInterval) {
  // Gains 0.10, 0.12 and 0.11: mean 0.11, standard deviation 0.01. t of 2 degrees of freedom at 97.5%: 4.303 (Fisher
  // and Yates, table III), so that the half width is 4.303 * 0.01 / sqrt(3) = 0.024843.
  const BottomGain gain({{1, 0.72}, {2, 0.75}, {3, 0.74}}, {{1, 0.62}, {2, 0.63}, {3, 0.63}});
  EXPECT_EQ(gain.state(), GainState::kMeasured);
  EXPECT_NEAR(gain.gain().mean, 0.11, 1e-12);
  EXPECT_NEAR(gain.gain().min, 0.10, 1e-12);
  EXPECT_NEAR(gain.gain().max, 0.12, 1e-12);
  EXPECT_NEAR(gain.gain_low(), 0.085157, 1e-6);
  EXPECT_NEAR(gain.gain_high(), 0.134843, 1e-6);
  EXPECT_THAT(gain.Words(), HasSubstr("test AUC 0.6267 frozen at its start, 0.7367 without protection, a gain of "
                                      "0.1100, 95% interval 0.0852 to 0.1348 over 3 seeds."));
}

// A third seed, so that the gains of the first two are told from noise.
BottomGain ThreeSeeds() { return {{{1, 0.72}, {2, 0.75}, {9, 0.74}}, {{1, 0.62}, {2, 0.63}, {9, 0.63}}}; }

TEST(BottomGainTest, AShareIsOfTheSameSeedsReferences) {
  const BottomGain gain = ThreeSeeds();
  EXPECT_NEAR(gain.ShareKept(1, 0.70), 0.8, 1e-12);
  EXPECT_NEAR(gain.ShareKept(2, 0.69), 0.5, 1e-12);
  EXPECT_NEAR(gain.ShareKept(1, 0.72), 1, 1e-12);
  EXPECT_NEAR(gain.ShareKept(1, 0.62), 0, 1e-12);
  EXPECT_NEAR(gain.ShareKept(1, 0.60), -0.2, 1e-12);  // Worse than no training at all.
  EXPECT_TRUE(std::isnan(gain.ShareKept(3, 0.7)));
  EXPECT_EQ(gain.NoneQuality(2), 0.75);
  EXPECT_EQ(gain.FrozenQuality(2), 0.63);
  EXPECT_TRUE(std::isnan(gain.NoneQuality(3)));
}

TEST(BottomGainTest, AProtectionsShareIsOfTheSumsAndSpansItsSeeds) {
  const BottomGain gain = ThreeSeeds();
  // Kept 0.08 of 0.10 and 0.06 of 0.12: together 0.14 of 0.22.
  const KeptGain kept = gain.KeptBy({{1, 0.70}, {2, 0.69}});
  EXPECT_NEAR(kept.share.mean, 0.14 / 0.22, 1e-12);
  EXPECT_NEAR(kept.share.min, 0.5, 1e-12);
  EXPECT_NEAR(kept.share.max, 0.8, 1e-12);
  EXPECT_NEAR(kept.none_quality.mean, 0.735, 1e-12);
  EXPECT_NEAR(kept.frozen_quality.mean, 0.625, 1e-12);
}

TEST(BottomGainTest, LeavesOutSeedsWithoutBothReferences) {
  const BottomGain gain({{1, 0.72}, {2, 0.75}, {3, 0.9}, {4, kNone}, {9, 0.74}},
                        {{1, 0.62}, {2, 0.63}, {4, 0.1}, {5, 0.1}, {9, 0.63}});
  EXPECT_NEAR(gain.gain().mean, 0.11, 1e-12);
  const KeptGain kept = gain.KeptBy({{1, 0.70}, {3, 0.5}, {4, 0.5}, {5, 0.5}});
  EXPECT_NEAR(kept.share.mean, 0.8, 1e-12);
  EXPECT_EQ(kept.none_quality.mean, 0.72);
  EXPECT_TRUE(std::isnan(gain.KeptBy({{1, kNone}}).share.mean));
}

TEST(BottomGainTest, SaysThatAShareMeansNothingWhereTheGainIsWithinTheSeedsNoise) {
  // Gains 0.004, 0.010 and 0.001: mean 0.005, standard deviation 0.00458, half width 0.01138.
  const BottomGain gain({{1, 0.740}, {2, 0.744}, {3, 0.738}}, {{1, 0.736}, {2, 0.734}, {3, 0.737}});
  EXPECT_EQ(gain.state(), GainState::kWithinNoise);
  EXPECT_LT(gain.gain_low(), 0);
  EXPECT_TRUE(std::isnan(gain.ShareKept(1, 0.738)));
  const KeptGain kept = gain.KeptBy({{1, 0.738}, {2, 0.74}});
  EXPECT_TRUE(std::isnan(kept.share.mean) && std::isnan(kept.share.min));
  EXPECT_NEAR(kept.frozen_quality.mean, 0.735, 1e-12);
  EXPECT_THAT(gain.Words(), AllOf(HasSubstr("nothing that these seeds tell from noise"), HasSubstr("0.7357 frozen"),
                                  HasSubstr("-0.0064 to 0.0164 over 3 seeds"), HasSubstr("means nothing")));
}

TEST(BottomGainTest, TwoSeedsTellNothingUnlessTheyAgree) {
  // t of one degree of freedom is 12.706: gains 0.10 and 0.12 have a half width of 0.12706, above their mean 0.11.
  EXPECT_EQ(BottomGain({{1, 0.72}, {2, 0.75}}, {{1, 0.62}, {2, 0.63}}).state(), GainState::kWithinNoise);
  EXPECT_EQ(BottomGain({{1, 0.72}, {2, 0.73}}, {{1, 0.62}, {2, 0.63}}).state(), GainState::kMeasured);
}

TEST(BottomGainTest, OfOneSeedStatesTheShareAndThatChanceIsNotKnown) {
  const BottomGain gain({{1, 0.72}}, {{1, 0.62}});
  EXPECT_EQ(gain.state(), GainState::kOneSeed);
  EXPECT_TRUE(std::isnan(gain.gain_low()));
  EXPECT_NEAR(gain.KeptBy({{1, 0.70}}).share.mean, 0.8, 1e-12);
  EXPECT_THAT(gain.Words(), AllOf(HasSubstr("a gain of 0.1000."), HasSubstr("One seed: how much of that is chance"),
                                  Not(HasSubstr("interval"))));
}

TEST(BottomGainTest, AGainBelowZeroIsNone) {
  const BottomGain gain({{1, 0.62}}, {{1, 0.63}});
  EXPECT_EQ(gain.state(), GainState::kWithinNoise);
  EXPECT_TRUE(std::isnan(gain.ShareKept(1, 0.62)));
  EXPECT_THAT(gain.Words(), AllOf(HasSubstr("a gain of -0.0100."), HasSubstr("means nothing")));
}

TEST(BottomGainTest, OfNoReferencesIsNotKnown) {
  const BottomGain gain({}, {{1, 0.6}});
  EXPECT_EQ(gain.state(), GainState::kNotMeasured);
  EXPECT_TRUE(std::isnan(gain.gain().mean));
  EXPECT_TRUE(std::isnan(gain.KeptBy({{1, 0.7}}).share.mean));
  EXPECT_THAT(gain.Words(), HasSubstr("not known yet"));
}

TEST(BottomGainTest, ManySeedsUseTheLastQuantile) {
  QualitiesBySeed none, frozen;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    none[seed] = 0.7 + (seed % 2 == 0 ? 0.01 : -0.01);
    frozen[seed] = 0.6;
  }
  // Standard deviation 0.01 sqrt(100/99), over 10, times 2.042.
  const BottomGain gain(none, frozen);
  EXPECT_NEAR(gain.gain_high() - gain.gain().mean, 2.042 * 0.01 * std::sqrt(100. / 99) / 10, 1e-9);
}

TEST(SpreadTest, IsMeanLeastAndLargest) {
  const Spread spread = SpreadOf({3, 1, 5});
  EXPECT_DOUBLE_EQ(spread.mean, 3);
  EXPECT_EQ(spread.min, 1);
  EXPECT_EQ(spread.max, 5);
}

TEST(SpreadTest, OfOneSeedIsThatSeed) {
  const Spread spread = SpreadOf({0.7});
  EXPECT_EQ(spread.mean, 0.7);
  EXPECT_EQ(spread.min, 0.7);
  EXPECT_EQ(spread.max, 0.7);
}

TEST(SpreadTest, OfEqualValuesIsExactlyTheValue) {
  const Spread spread = SpreadOf({0.1, 0.1, 0.1});  // Their sum, divided by three, rounds to another number.
  EXPECT_EQ(spread.mean, 0.1);
}

TEST(SpreadTest, LeavesOutWhatIsNotFinite) {
  const Spread spread = SpreadOf({kNone, 2, std::numeric_limits<double>::infinity(), 4});
  EXPECT_EQ(spread.mean, 3);
  EXPECT_EQ(spread.max, 4);
}

TEST(SpreadTest, OfNothingMeasuredIsNaN) {
  for (const std::vector<double>& values : {std::vector<double>{}, std::vector<double>{kNone}}) {
    const Spread spread = SpreadOf(values);
    EXPECT_TRUE(std::isnan(spread.mean) && std::isnan(spread.min) && std::isnan(spread.max));
  }
}

}  // namespace

}  // namespace splitveil
