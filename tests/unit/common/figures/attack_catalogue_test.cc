#include "common/figures/attack_catalogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>
#include <string>

#include "common/leakage/attack_traits.h"

#include "splitveil/v1/leak_audit.pb.h"

namespace splitveil {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

TEST(AttackCatalogueTest, EveryAttackOfTheProtocolHasWordsOfItsOwn) {
  std::set<std::string> titles;
  for (const AttackTraits& traits : AllAttackTraits()) {
    for (const AttackVariant& variant : VariantsOf(traits.attack, {1, 2, 3, 4, 5})) {
      const std::string name = AttackName(variant);
      EXPECT_NE(AttackTitle(name), name);
      EXPECT_TRUE(titles.insert(AttackTitle(name)).second) << name;
      EXPECT_THAT(AttackExplanation(name), EndsWith(".")) << name;
    }
  }
}

TEST(AttackCatalogueTest, AdversariesThatKnowMoreThanAnyPartnerAreSaidToBeComputedByTheLabelParty) {
  for (const AttackTraits& traits : AllAttackTraits()) {
    if (traits.label_side_only()) {
      EXPECT_THAT(AttackExplanation(traits.name), HasSubstr("Computed by the label party")) << traits.name;
    }
  }
}

TEST(AttackCatalogueTest, AnUnknownAttackKeepsItsNameAndClaimsNothing) {
  EXPECT_EQ(AttackTitle("homebrew"), "homebrew");
  EXPECT_EQ(AttackExplanation("homebrew"), "");
  EXPECT_EQ(AttackTitle(""), "");
}

TEST(AttackCatalogueTest, NeedsAreThoseOfTheTraits) {
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

TEST(AttackCatalogueTest, TheWorstCaseKnowsAllButTheLabel) {
  EXPECT_TRUE(IsWorstCase("conditional_likelihood_ratio"));
  EXPECT_TRUE(IsWorstCase("cumulative_conditional_likelihood_ratio"));
  EXPECT_FALSE(IsWorstCase("likelihood_ratio"));
  EXPECT_FALSE(IsWorstCase("homebrew"));
}

}  // namespace
}  // namespace splitveil
