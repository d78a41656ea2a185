#include "common/leakage/attribute_leak.h"

#include <cmath>
#include <gtest/gtest.h>
#include <set>
#include <string>
#include <vector>

#include "common/matrix/matrix.h"

namespace splitveil {
namespace {

constexpr uint8_t kUnknown = 255;

// Of every attack that the protocol has.
std::vector<AttributeAttackTraits> AllTraits() {
  std::vector<AttributeAttackTraits> all;
  for (int number = v1::AttributeAttack_MIN + 1; number <= v1::AttributeAttack_MAX; ++number) {
    if (v1::AttributeAttack_IsValid(number)) {
      all.push_back(TraitsOf(static_cast<v1::AttributeAttack>(number)));
    }
  }
  return all;
}

AttributeLeak Measure(const std::vector<float>& scores, int64_t values, const std::vector<uint8_t>& truth) {
  return MeasureAttributeLeak(ConstMatrixView(scores.data(), static_cast<int64_t>(truth.size()), values), truth);
}

// By hand: right at the first, the second and the last; differences 2, -1, 3, -4 and 1 of classes 1, 0, 0, 0, 1.
TEST(AttributeLeakTest, OfTwoValuesIsThatOfTheDifferenceOfTheirScores) {
  const AttributeLeak leak = Measure({0, 2, 1, 0, -3, 0, 7, 3, 0, 1}, 2, {1, 0, 0, 0, 1});
  EXPECT_EQ(leak.examples, 5);
  EXPECT_DOUBLE_EQ(leak.accuracy, 0.8);
  EXPECT_DOUBLE_EQ(leak.floor, 0.6);
  EXPECT_DOUBLE_EQ(leak.auc, 4.0 / 6);  // Of six pairs those with the difference 3 are lost.
  // Clopper and Pearson, 4 of 5, as tables have it.
  EXPECT_NEAR(leak.accuracy_low, 0.2836, 1e-4);
  EXPECT_NEAR(leak.accuracy_high, 0.9949, 1e-4);
}

TEST(AttributeLeakTest, LeavesOutExamplesWhoseValueIsUnknown) {
  const AttributeLeak leak = Measure({0, 1, 9, 0, 1, 0}, 2, {1, kUnknown, 0});
  EXPECT_EQ(leak.examples, 2);
  EXPECT_EQ(leak.accuracy, 1);
  EXPECT_EQ(leak.floor, 0.5);
  EXPECT_EQ(leak.auc, 1);
}

TEST(AttributeLeakTest, OfSeveralValuesIsTheMeanOfEachThatOccursAgainstTheRest) {
  // The scores of value 0 tell it in full, those of value 1 rank it last; value 2 does not occur.
  std::vector<float> scores;
  std::vector<uint8_t> truth;
  const auto add = [&](std::vector<float> row, uint8_t value) {
    scores.insert(scores.end(), row.begin(), row.end());
    truth.push_back(value);
  };
  for (int i = 0; i < 10; ++i) {
    add({5, 1, 0}, 0);
    add({5, 1, 0}, 0);
    add({0, 0, 0}, 1);
  }
  const AttributeLeak leak = Measure(scores, 3, truth);
  EXPECT_DOUBLE_EQ(leak.auc, 1);  // Ranked last is told, too: the mean of 1 and 0 would hide both.
  EXPECT_DOUBLE_EQ(leak.floor, 2.0 / 3);
  // Of too few to say more than chance does: of value 2 no AUC is taken.
  add({5, 1, 0}, 2);
  EXPECT_DOUBLE_EQ(Measure(scores, 3, truth).auc, (1 - 0.5 / 11 + 1) / 2);
  EXPECT_DOUBLE_EQ(leak.accuracy, 2.0 / 3);  // Of equal scores the first counts.
}

TEST(AttributeLeakTest, HasNoFiguresWithoutExamplesAndNoAucOfOneValue) {
  EXPECT_TRUE(std::isnan(Measure({0, 1}, 2, {kUnknown}).accuracy));
  EXPECT_TRUE(std::isnan(Measure({}, 2, {}).floor));
  const AttributeLeak one = Measure({0, 1, 1, 0}, 2, {1, 1});
  EXPECT_TRUE(std::isnan(one.auc));
  EXPECT_EQ(one.accuracy, 0.5);
  EXPECT_EQ(one.floor, 1);
}

TEST(AttributeAttackTraitsTest, EveryAttackOfTheProtocolHasANameOfItsOwn) {
  std::set<std::string> names;
  for (const AttributeAttackTraits& traits : AllTraits()) {
    EXPECT_FALSE(traits.name.empty()) << traits.attack;
    EXPECT_TRUE(names.insert(std::string(traits.name)).second) << traits.name;
    EXPECT_EQ(AttributeAttackOfName(traits.name), traits.attack);
  }
  EXPECT_FALSE(names.empty());
}

TEST(AttributeAttackTraitsTest, AnUnknownAttackHasNoNameAndNeedsFeatures) {
  EXPECT_TRUE(TraitsOf(v1::ATTRIBUTE_ATTACK_UNSPECIFIED).name.empty());
  EXPECT_TRUE(TraitsOf(v1::ATTRIBUTE_ATTACK_UNSPECIFIED).needs_features());
  EXPECT_FALSE(AttributeAttackOfName("").has_value());
  EXPECT_FALSE(AttributeAttackOfName("Basic").has_value());
}

TEST(AttributeAttackTraitsTest, QueriesOfTheModelAreForAttacksThatDoNotReadTheTraining) {
  for (const AttributeAttackTraits& traits : AllTraits()) {
    EXPECT_NE(traits.needs_auxiliary_activations(), traits.reads_training()) << traits.name;
  }
}

}  // namespace
}  // namespace splitveil
