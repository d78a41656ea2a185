#include "common/leakage/attribute_attack_traits.h"

#include <gtest/gtest.h>
#include <set>
#include <string>

namespace splitveil {
namespace {

TEST(AttributeAttackTraitsTest, TheTableHoldsEveryAttackOfTheProtocolOnceByItsName) {
  std::set<std::string> names;
  for (const AttributeAttackTraits& traits : AllAttributeAttackTraits()) {
    EXPECT_TRUE(names.insert(std::string(traits.name)).second) << traits.name;
    EXPECT_EQ(AttributeAttackOfName(traits.name), traits.attack);
    EXPECT_EQ(TraitsOf(traits.attack).name, traits.name);
  }
  size_t attacks = 0;
  for (int number = v1::AttributeAttack_MIN + 1; number <= v1::AttributeAttack_MAX; ++number) {
    attacks += v1::AttributeAttack_IsValid(number) ? 1 : 0;
  }
  EXPECT_EQ(names.size(), attacks);
}

TEST(AttributeAttackTraitsTest, AnUnknownAttackHasNoNameAndNeedsFeatures) {
  EXPECT_TRUE(TraitsOf(v1::ATTRIBUTE_ATTACK_UNSPECIFIED).name.empty());
  EXPECT_TRUE(TraitsOf(v1::ATTRIBUTE_ATTACK_UNSPECIFIED).needs_features());
  EXPECT_FALSE(AttributeAttackOfName("").has_value());
  EXPECT_FALSE(AttributeAttackOfName("Basic").has_value());
}

TEST(AttributeAttackTraitsTest, QueriesOfTheModelAreForAttacksThatDoNotReadTheTraining) {
  for (const AttributeAttackTraits& traits : AllAttributeAttackTraits()) {
    EXPECT_NE(traits.needs_auxiliary_activations(), traits.reads_training()) << traits.name;
  }
}

}  // namespace
}  // namespace splitveil
