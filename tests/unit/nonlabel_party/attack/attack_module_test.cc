#include "nonlabel_party/attack/attack_module.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <iterator>
#include <utility>

namespace splitveil {
namespace {

// Gradients (3, 4), (-3, -4), (4, -3) at one layer.
std::vector<LayerGradient> Gradients(const char* layer) {
  LayerGradient gradient{layer, Matrix(3, 2)};
  const float values[] = {3, 4, -3, -4, 4, -3};
  std::copy(std::begin(values), std::end(values), gradient.gradient.data());
  std::vector<LayerGradient> all;
  all.push_back(std::move(gradient));
  return all;
}

TEST(AttackModuleTest, ScoresEveryAttackAtEveryLayerInOrder) {
  std::vector<LayerGradient> gradients = Gradients("cut");
  gradients.push_back(Gradients("first")[0]);
  const auto scores = RunAttacks(gradients, {{3, 4}, {4, -3}}, {v1::NORM, v1::COSINE});
  ASSERT_TRUE(scores.ok()) << scores.status();
  ASSERT_EQ(scores->size(), 4);
  EXPECT_EQ((*scores)[0].layer, "cut");
  EXPECT_EQ((*scores)[0].attack, v1::NORM);
  EXPECT_EQ((*scores)[3].layer, "first");
  EXPECT_EQ((*scores)[3].attack, v1::COSINE);
  EXPECT_EQ((*scores)[0].scores, (std::vector<float>{5, 5, 5}));
  EXPECT_NEAR((*scores)[1].scores[0], 1, 1e-6);
  EXPECT_NEAR((*scores)[1].scores[1], -1, 1e-6);
  EXPECT_NEAR((*scores)[1].scores[2], 0, 1e-6);
  EXPECT_NEAR((*scores)[3].scores[2], 1, 1e-6);
}

TEST(AttackModuleTest, CosineFailsWithoutAHint) {
  EXPECT_EQ(RunAttacks(Gradients("cut"), {}, {v1::COSINE}).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(AttackModuleTest, CosineFailsWithAHintOfAnotherWidth) {
  EXPECT_EQ(RunAttacks(Gradients("cut"), {{1, 2, 3}}, {v1::COSINE}).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(AttackModuleTest, UnknownAttackFails) {
  EXPECT_EQ(RunAttacks(Gradients("cut"), {}, {v1::ATTACK_UNSPECIFIED}).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(AttackModuleTest, NothingToScoreGivesNothing) {
  const auto scores = RunAttacks({}, {}, {v1::NORM});
  ASSERT_TRUE(scores.ok());
  EXPECT_TRUE(scores->empty());
}

}  // namespace
}  // namespace splitveil
