#include "common/leakage/attack_traits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>
#include <string>
#include <vector>

namespace splitveil {
namespace {

using ::testing::ElementsAre;

TEST(AttackTraitsTest, TheTableHoldsEveryAttackOfTheProtocolOnceByItsName) {
  std::set<std::string> names;
  for (const AttackTraits& traits : AllAttackTraits()) {
    EXPECT_TRUE(v1::Attack_IsValid(traits.attack)) << traits.name;
    EXPECT_EQ(AttackName(traits.attack), std::string(traits.name));
    EXPECT_TRUE(names.insert(std::string(traits.name)).second) << traits.name;
  }
  int attacks = 0;
  for (int number = v1::Attack_MIN + 1; number <= v1::Attack_MAX; ++number) {
    attacks += v1::Attack_IsValid(number);
    if (v1::Attack_IsValid(number)) {
      EXPECT_FALSE(AttackName(static_cast<v1::Attack>(number)).empty()) << number;
    }
  }
  EXPECT_EQ(names.size(), attacks);
}

TEST(AttackTraitsTest, DisclosureFollowsFromWhatAnAttackNeeds) {
  EXPECT_TRUE(TraitsOf(v1::COSINE).needs_oracle());
  EXPECT_TRUE(TraitsOf(v1::HINT_DISTANCE).needs_oracle());
  EXPECT_TRUE(TraitsOf(v1::FEATURES_ONLY).needs_oracle());
  EXPECT_FALSE(TraitsOf(v1::CUMULATIVE_SPECTRAL).needs_oracle());
  for (v1::Attack attack : {v1::DIRECTION, v1::LIKELIHOOD_RATIO, v1::MEASURED_LIKELIHOOD_RATIO,
                            v1::CUMULATIVE_DIRECTION, v1::CUMULATIVE_LIKELIHOOD_RATIO}) {
    EXPECT_TRUE(TraitsOf(attack).label_side_only()) << AttackName(attack);
    EXPECT_FALSE(TraitsOf(attack).needs_oracle()) << AttackName(attack);
  }
  EXPECT_FALSE(TraitsOf(v1::MODEL_COMPLETION).label_side_only());
}

TEST(AttackTraitsTest, NoiseOnAGradientAnswersForNoAttackThatReadsNone) {
  EXPECT_FALSE(TraitsOf(v1::ACTIVATION_CLUSTERS).reads_gradients());
  EXPECT_FALSE(TraitsOf(v1::MODEL_COMPLETION).reads_gradients());
  EXPECT_TRUE(TraitsOf(v1::RESIDUAL_NORM).reads_gradients());
}

TEST(AttackTraitsTest, ASurrogateHeadIsLearntFromWhatWasSentAndReceivedAlone) {
  for (v1::Attack attack : {v1::SURROGATE_HEAD, v1::CUMULATIVE_SURROGATE_HEAD, v1::UNSPLIT}) {
    const AttackTraits traits = TraitsOf(attack);
    EXPECT_TRUE(traits.learns() && traits.needs_activations() && traits.cut_only()) << traits.name;
    EXPECT_TRUE(traits.reads_gradients()) << traits.name;
    EXPECT_FALSE(traits.needs_oracle() || traits.label_side_only()) << traits.name;
  }
  EXPECT_FALSE(TraitsOf(v1::FACTOR_ANALYSIS).cut_only());
  EXPECT_FALSE(TraitsOf(v1::ACTIVATION_CLUSTERS).learns());
}

TEST(AttackTraitsTest, NobodyButTheLabelPartyMayRunAnUnknownAttack) {
  for (v1::Attack unknown : {v1::ATTACK_UNSPECIFIED, static_cast<v1::Attack>(4), static_cast<v1::Attack>(9999)}) {
    EXPECT_TRUE(TraitsOf(unknown).label_side_only());
    EXPECT_EQ(AttackName(unknown), "");
  }
}

TEST(AttackVariantTest, HintAttacksRunOnceForEachCount) {
  EXPECT_THAT(VariantsOf(v1::HINT_DISTANCE, {5, 1}),
              ElementsAre(AttackVariant(v1::HINT_DISTANCE, 5), AttackVariant(v1::HINT_DISTANCE, 1)));
  EXPECT_THAT(VariantsOf(v1::COSINE, {5, 1}), ElementsAre(AttackVariant(v1::COSINE)));
  EXPECT_THAT(HintCounts({}), ElementsAre(1, 3, 5));
  EXPECT_THAT(HintCounts({2}), ElementsAre(2));
}

TEST(AttackVariantTest, NamesGoThereAndBack) {
  EXPECT_EQ(AttackName({v1::HINT_DISTANCE, 3}), "hint_distance_3");
  EXPECT_EQ(AttackName({v1::HINT_INNER_PRODUCT, 1}), "hint_inner_product_1");
  for (const AttackTraits& traits : AllAttackTraits()) {
    for (const AttackVariant& variant : VariantsOf(traits.attack, {1, 2, 3, 4, 5})) {
      const std::optional<AttackVariant> found = AttackOfName(AttackName(variant));
      ASSERT_TRUE(found.has_value()) << AttackName(variant);
      EXPECT_TRUE(*found == variant) << AttackName(variant);
    }
  }
  EXPECT_TRUE(*AttackOfName("hint_distance") == AttackVariant(v1::HINT_DISTANCE));
}

TEST(AttackVariantTest, OtherNamesNameNoAttack) {
  for (const char* name :
       {"", "_", "NORM", "norm_3", "hint_distance_", "hint_distance_0", "hint_distance_6", "hint_distance_03",
        "hint_distance_+3", "hint_distance_3 ", "hint_distance_3_3", "attack_unspecified", "remembered_spectral"}) {
    EXPECT_FALSE(AttackOfName(name).has_value()) << name;
  }
}

TEST(AttackVariantTest, LeavesOutTheHintsItIsToldOfAndAlwaysTheFirst) {
  const std::vector<uint32_t> hints = {7, 2, 9};
  EXPECT_THAT(RowsLeftOut(v1::NORM, hints), ElementsAre(7));
  EXPECT_THAT(RowsLeftOut({v1::HINT_DISTANCE, 2}, hints), ElementsAre(7, 2));
  EXPECT_THAT(RowsLeftOut({v1::HINT_DISTANCE, 5}, hints), ElementsAre(7, 2, 9));
  EXPECT_TRUE(RowsLeftOut(v1::NORM, {}).empty());
}

}  // namespace
}  // namespace splitveil
