#include "common/leakage/attack_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>
#include <string>

#include "common/leakage/attack_traits.h"

#include "splitveil/v1/leak_audit.pb.h"

namespace splitveil {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

TEST(AttackWordsTest, EveryAttackOfTheProtocolHasWordsOfItsOwn) {
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

TEST(AttackWordsTest, AdversariesThatKnowMoreThanAnyPartnerAreSaidToBeComputedByTheLabelParty) {
  for (const AttackTraits& traits : AllAttackTraits()) {
    if (traits.label_side_only()) {
      EXPECT_THAT(AttackExplanation(traits.name), HasSubstr("Computed by the label party")) << traits.name;
    }
  }
}

TEST(AttackWordsTest, AnUnknownAttackKeepsItsNameAndClaimsNothing) {
  EXPECT_EQ(AttackTitle("homebrew"), "homebrew");
  EXPECT_EQ(AttackExplanation("homebrew"), "");
  EXPECT_EQ(AttackTitle(""), "");
}

}  // namespace
}  // namespace splitveil
