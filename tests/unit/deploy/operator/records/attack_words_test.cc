#include "deploy/operator/records/attack_words.h"

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
  for (int value = v1::Attack_MIN + 1; value <= v1::Attack_MAX; ++value) {
    const std::string name = AttackName(static_cast<v1::Attack>(value));
    EXPECT_NE(AttackTitle(name), name);
    EXPECT_TRUE(titles.insert(AttackTitle(name)).second) << name;
    EXPECT_THAT(AttackExplanation(name), EndsWith(".")) << name;
  }
}

TEST(AttackWordsTest, AdversariesThatKnowMoreThanAnyPartnerAreSaidToBeComputedByTheLabelParty) {
  for (int value = v1::Attack_MIN + 1; value <= v1::Attack_MAX; ++value) {
    const auto attack = static_cast<v1::Attack>(value);
    if (TraitsOf(attack).label_side_only) {
      EXPECT_THAT(AttackExplanation(AttackName(attack)), HasSubstr("Computed by the label party"))
          << AttackName(attack);
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
