#include "common/leakage/attack_scorer.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <vector>

#include "common/leakage/attack_traits.h"
#include "common/leakage/summary.h"

namespace splitveil {
namespace {

constexpr int64_t kExamples = 400;
constexpr int64_t kRows = 100;
constexpr int64_t kCols = 6;

// A batch of positives about (2, 0, ...) and negatives about (-0.5, 0, ...), spread `noise`, with all that an attack
// can ask for.
struct Batch {
  explicit Batch(uint64_t seed = 1, float noise = 0.5f)
      : gradients(kRows, kCols), activations(kRows, 2), positions(kRows), labels(kRows) {
    std::mt19937_64 random(seed);
    std::normal_distribution<float> normal;
    for (int64_t j = 0; j < kRows; ++j) {
      positions[j] = static_cast<uint32_t>(3 * j);
      labels[j] = j % 4 == 1;
      for (float& component : gradients.row(j)) {
        component = noise * normal(random);
      }
      gradients.row(j)[0] += labels[j] == 1 ? 2.0f : -0.5f;
      activations.row(j)[0] = normal(random) + (labels[j] == 1 ? 5.0f : 0);
      activations.row(j)[1] = normal(random);
    }
    population = *EstimatePopulation(gradients, gradients, labels);
    label_directions = Matrix(kRows, kCols);
    for (int64_t j = 0; j < kRows; ++j) {
      for (int64_t i = 0; i < kCols; ++i) {
        label_directions.row(j)[i] = gradients.row(j)[i] / (0.5f - static_cast<float>(labels[j]));
      }
    }
  }

  AttackInput Input() const {
    AttackInput input;
    input.gradients = gradients;
    input.positions = positions;
    input.activations = activations;
    input.hint_rows = hint_rows;
    input.clean_positive = clean_positive;
    input.population = &population;
    head.label_directions = label_directions;
    head.probabilities = probabilities;
    input.head = &head;
    return input;
  }

  Matrix gradients, activations;
  std::vector<uint32_t> positions;
  std::vector<uint8_t> labels;
  std::vector<uint32_t> hint_rows = {1, 5, 9, 13, 17};
  std::vector<float> clean_positive = {2, 0, 0, 0, 0, 0};
  Population population;
  Matrix label_directions;
  std::vector<float> probabilities = std::vector<float>(kRows, 0.5f);
  mutable ReleasingHead head;  // Of `gradients` as they were made.
};

// RESIDUAL_NORM looks away from the line on which this batch's classes differ; it has a test of its own.
std::vector<AttackVariant> AttacksOnABatch() {
  std::vector<AttackVariant> attacks;
  for (const AttackTraits& traits : AllAttackTraits()) {
    if (!traits.once_per_run() && traits.attack != v1::RESIDUAL_NORM) {
      const std::vector<AttackVariant> variants = VariantsOf(traits.attack, {1, 3, 5});
      attacks.insert(attacks.end(), variants.begin(), variants.end());
    }
  }
  return attacks;
}

class EveryAttackTest : public ::testing::TestWithParam<AttackVariant> {};
INSTANTIATE_TEST_SUITE_P(Attacks, EveryAttackTest, ::testing::ValuesIn(AttacksOnABatch()),
                         [](const auto& info) { return AttackName(info.param); });

TEST_P(EveryAttackTest, ReadsTheLabelsOfUnprotectedGradients) {
  const Batch batch;
  AttackScorer scorer{ExampleSample(kExamples)};
  ASSERT_TRUE(scorer.Begin(batch.Input()).ok());
  const auto scores = scorer.Score(GetParam());
  ASSERT_TRUE(scores.ok()) << scores.status();
  EXPECT_GT(*LeakAuc(*scores, batch.labels, RowsLeftOut(GetParam(), batch.hint_rows)),
            GetParam() == AttackVariant(v1::HINT_DISTANCE, 1) ? 0.8 : 0.9);
}

TEST_P(EveryAttackTest, IsFiniteForABatchThatTellsNothing) {
  Batch batch;
  std::fill_n(batch.gradients.data(), batch.gradients.size(), 0.0f);
  std::fill_n(batch.activations.data(), batch.activations.size(), 0.0f);
  AttackScorer scorer{ExampleSample(kExamples)};
  ASSERT_TRUE(scorer.Begin(batch.Input()).ok());
  const auto scores = scorer.Score(GetParam());
  ASSERT_TRUE(scores.ok()) << scores.status();
  ASSERT_EQ(scores->size(), kRows);
  for (float score : *scores) {
    EXPECT_TRUE(std::isfinite(score));
  }
}

TEST_P(EveryAttackTest, IsFiniteForTheLargestGradients) {
  Batch batch;
  for (int64_t i = 0; i < batch.gradients.size(); ++i) {
    batch.gradients.data()[i] = std::copysign(std::numeric_limits<float>::max(), batch.gradients.data()[i]);
  }
  AttackScorer scorer{ExampleSample(kExamples)};
  ASSERT_TRUE(scorer.Begin(batch.Input()).ok());
  const auto scores = scorer.Score(GetParam());
  ASSERT_TRUE(scores.ok()) << scores.status();
  for (float score : *scores) {
    EXPECT_TRUE(std::isfinite(score));
  }
}

TEST_P(EveryAttackTest, NeedsWhatItsTraitsSay) {
  const Batch batch;
  const AttackTraits traits = TraitsOf(GetParam().attack);
  AttackInput input = batch.Input();
  input.hint_rows = {};
  input.clean_positive = {};
  input.activations = {};
  input.population = nullptr;
  input.head = nullptr;
  AttackScorer scorer{ExampleSample(kExamples)};
  ASSERT_TRUE(scorer.Begin(input).ok());
  EXPECT_EQ(scorer.Score(GetParam()).ok(), traits.needs == SideInformation::kNone);
  if (!scorer.Score(GetParam()).ok()) {
    EXPECT_EQ(scorer.Score(GetParam()).status().code(), absl::StatusCode::kFailedPrecondition);
  }
}

TEST(AttackScorerTest, AttacksOfTheWholeRunAndUnknownOnesFail) {
  const Batch batch;
  AttackScorer scorer{ExampleSample(kExamples)};
  ASSERT_TRUE(scorer.Begin(batch.Input()).ok());
  for (v1::Attack attack : {v1::MODEL_COMPLETION, v1::FEATURES_ONLY, v1::ATTACK_UNSPECIFIED}) {
    EXPECT_EQ(scorer.Score(attack).status().code(), absl::StatusCode::kFailedPrecondition);
  }
}

TEST(AttackScorerTest, HintsAreCountedWhereTheyAreTakenAndNowhereElse) {
  const Batch batch;
  AttackScorer scorer{ExampleSample(kExamples)};
  ASSERT_TRUE(scorer.Begin(batch.Input()).ok());
  for (const AttackVariant& variant : {AttackVariant(v1::HINT_DISTANCE), AttackVariant(v1::HINT_DISTANCE, -1),
                                       AttackVariant(v1::HINT_INNER_PRODUCT), AttackVariant(v1::NORM, 3)}) {
    EXPECT_EQ(scorer.Score(variant).status().code(), absl::StatusCode::kFailedPrecondition);
  }
  EXPECT_NE(*scorer.Score({v1::HINT_DISTANCE, 1}), *scorer.Score({v1::HINT_DISTANCE, 3}));
}

TEST(AttackScorerTest, RefusesInputThatDoesNotFit) {
  const Batch batch;
  const std::vector<uint32_t> short_positions(kRows - 1);
  std::vector<uint32_t> far_positions(kRows);
  far_positions[3] = kExamples;
  const std::vector<uint32_t> outside = {kRows};
  const std::vector<float> narrow(kCols - 1);
  const Matrix few_activations(kRows - 1, 2);
  Population other = batch.population;
  other.direction.pop_back();
  const auto refused = [&](auto alter) {
    AttackInput input = batch.Input();
    alter(input);
    return AttackScorer(ExampleSample(kExamples)).Begin(input).code() == absl::StatusCode::kInvalidArgument;
  };
  EXPECT_TRUE(refused([&](AttackInput& input) { input.positions = short_positions; }));
  EXPECT_TRUE(refused([&](AttackInput& input) { input.positions = far_positions; }));
  EXPECT_TRUE(refused([&](AttackInput& input) { input.hint_rows = outside; }));
  EXPECT_TRUE(refused([&](AttackInput& input) { input.clean_positive = narrow; }));
  EXPECT_TRUE(refused([&](AttackInput& input) { input.activations = few_activations; }));
  EXPECT_TRUE(refused([&](AttackInput& input) { input.population = &other; }));
  EXPECT_FALSE(refused([](AttackInput&) {}));
}

TEST(AttackScorerTest, RemembersByPosition) {
  const Batch batch;
  Batch reversed = batch;
  for (int64_t j = 0; j < kRows; ++j) {
    std::copy_n(batch.gradients.row(j).data(), kCols, reversed.gradients.row(kRows - 1 - j).data());
    reversed.positions[kRows - 1 - j] = batch.positions[j];
  }
  AttackScorer scorer{ExampleSample(kExamples)};
  ASSERT_TRUE(scorer.Begin(batch.Input()).ok());
  const auto once = scorer.Score(v1::CUMULATIVE_LIKELIHOOD_RATIO);
  ASSERT_TRUE(scorer.Begin(reversed.Input()).ok());
  const auto twice = scorer.Score(v1::CUMULATIVE_LIKELIHOOD_RATIO);
  for (int64_t j = 0; j < kRows; ++j) {
    EXPECT_NEAR((*twice)[kRows - 1 - j], 2 * (*once)[j], 1e-4 * std::abs((*once)[j]));
  }
}

TEST(AttackScorerTest, AnExampleNotSeenBeforeHasNoPast) {
  const Batch first(1);
  Batch second(2);
  for (uint32_t& position : second.positions) {
    ++position;
  }
  AttackScorer remembering{ExampleSample(kExamples)};
  AttackScorer fresh{ExampleSample(kExamples)};
  ASSERT_TRUE(remembering.Begin(first.Input()).ok());
  ASSERT_TRUE(remembering.Score(v1::CUMULATIVE_DIRECTION).ok());
  ASSERT_TRUE(remembering.Begin(second.Input()).ok());
  ASSERT_TRUE(fresh.Begin(second.Input()).ok());
  EXPECT_EQ(*remembering.Score(v1::CUMULATIVE_DIRECTION), *fresh.Score(v1::CUMULATIVE_DIRECTION));
}

// The first batch's tail points the wrong way; what was remembered of it turns round with the vote.
TEST(AttackScorerTest, WhatIsRememberedTurnsWithTheVote) {
  Batch misleading(1);
  for (int64_t j = 0; j < kRows; ++j) {
    // Positives a majority, at the same place: the tail is the negatives'.
    const bool positive = j % 4 != 1;
    misleading.labels[j] = positive;
    misleading.gradients.row(j)[0] += (positive ? 2.0f : -0.5f) - (j % 4 == 1 ? 2.0f : -0.5f);
  }
  AttackScorer scorer{ExampleSample(kExamples)};
  ASSERT_TRUE(scorer.Begin(misleading.Input()).ok());
  EXPECT_LT(*LeakAuc(*scorer.Score(v1::CUMULATIVE_SPECTRAL), misleading.labels), 0.1);
  for (uint64_t seed = 2; seed < 6; ++seed) {
    Batch batch(seed);
    for (uint32_t& position : batch.positions) {
      ++position;  // Other examples.
    }
    ASSERT_TRUE(scorer.Begin(batch.Input()).ok());
    ASSERT_TRUE(scorer.Score(v1::CUMULATIVE_SPECTRAL).ok());
  }
  Batch silent = misleading;
  std::fill_n(silent.gradients.data(), silent.gradients.size(), 0.0f);
  ASSERT_TRUE(scorer.Begin(silent.Input()).ok());
  EXPECT_GT(*LeakAuc(*scorer.Score(v1::CUMULATIVE_SPECTRAL), misleading.labels), 0.9);
}

// One batch of mostly positives does not make the others' larger cluster the positives.
TEST(AttackScorerTest, TheClusterThatWasSmallerSoFarIsThePositives) {
  AttackScorer scorer{ExampleSample(kExamples)};
  for (uint64_t seed = 1; seed < 4; ++seed) {
    const Batch usual(seed);
    ASSERT_TRUE(scorer.Begin(usual.Input()).ok());
    EXPECT_GT(*LeakAuc(*scorer.Score(v1::GRADIENT_CLUSTERS), usual.labels), 0.9);
  }
  Batch unusual(4);
  for (int64_t j = 0; j < kRows; ++j) {
    if (unusual.labels[j] == 0 && j % 2 == 0) {
      unusual.labels[j] = 1;
      unusual.gradients.row(j)[0] += 2.5f;
    }
  }
  ASSERT_TRUE(scorer.Begin(unusual.Input()).ok());
  EXPECT_GT(*LeakAuc(*scorer.Score(v1::GRADIENT_CLUSTERS), unusual.labels), 0.9);
}

// A hint is nearest to itself. Where nothing leaks, that alone lifts the AUC.
TEST(AttackScorerTest, AHintScoredWouldInflateTheAuc) {
  double scored = 0;
  double left_out = 0;
  constexpr int kBatches = 200;
  for (int seed = 0; seed < kBatches; ++seed) {
    Batch batch(seed);
    std::mt19937_64 random(seed);  // NOLINT(cert-msc51-cpp): a fixed seed on purpose.
    std::normal_distribution<float> normal;
    std::generate_n(batch.gradients.data(), batch.gradients.size(), [&] { return normal(random); });
    AttackScorer scorer{ExampleSample(kExamples)};
    ASSERT_TRUE(scorer.Begin(batch.Input()).ok());
    const auto scores = scorer.Score({v1::HINT_DISTANCE, 5});
    scored += *LeakAuc(*scores, batch.labels) / kBatches;
    left_out += *LeakAuc(*scores, batch.labels, RowsLeftOut({v1::HINT_DISTANCE, 5}, batch.hint_rows)) / kBatches;
  }
  // Standard error without leak: sqrt((75 + 20 + 1) / (12 75 20) / 200) = 0.005.
  EXPECT_NEAR(left_out, 0.5, 0.03);
  EXPECT_GT(scored, 0.57);
}

// What noise along one line leaves bare, and what noise across it gives away that only one class gets.
TEST(ResidualNormTest, ReadsAcrossTheLineThatTheNoiseLiesOn) {
  std::mt19937_64 random(5);  // NOLINT(cert-msc51-cpp): a fixed seed on purpose.
  std::normal_distribution<float> normal;
  Batch batch(2, 0.1f);
  for (int64_t j = 0; j < kRows; ++j) {
    batch.gradients.row(j)[0] += 20 * normal(random);
    batch.gradients.row(j)[1] += batch.labels[j] == 1 ? 0.6f : 0.0f;
  }
  AttackScorer scorer{ExampleSample(kExamples)};
  ASSERT_TRUE(scorer.Begin(batch.Input()).ok());
  EXPECT_LT(*LeakAuc(*scorer.Score(v1::NORM), batch.labels), 0.7);
  EXPECT_GT(*LeakAuc(*scorer.Score(v1::RESIDUAL_NORM), batch.labels), 0.95);
}

}  // namespace
}  // namespace splitveil
