#include "common/leakage/example_sample.h"

#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <optional>
#include <set>
#include <vector>

#include "absl/types/span.h"

#include "common/leakage/attack_scorer.h"
#include "common/matrix/matrix.h"

namespace splitveil {
namespace {

using ::testing::ElementsAre;

std::vector<uint32_t> Sampled(const ExampleSample& sample) {
  std::vector<uint32_t> positions;
  for (uint32_t position = 0; position < sample.examples(); ++position) {
    if (sample.Has(position)) {
      positions.push_back(position);
    }
  }
  return positions;
}

TEST(ExampleSampleTest, HasAllOfFewAndTheFirstOfMany) {
  for (const int64_t examples : {0, 1, 2, 10}) {
    const ExampleSample all(examples, 10);
    EXPECT_TRUE(all.is_all());
    EXPECT_EQ(Sampled(all).size(), examples);
    EXPECT_EQ(Sampled(ExampleSample::Secret(examples, 10)).size(), examples);
  }
  const ExampleSample first(11, 3);
  EXPECT_FALSE(first.is_all());
  EXPECT_THAT(Sampled(first), ElementsAre(0, 1, 2));
  EXPECT_EQ(first.SlotOf(2), std::optional<uint32_t>(2));
}

TEST(ExampleSampleTest, ASecretSampleHasASlotOfItsOwnForEachExample) {
  for (const int64_t examples : {1000, 1009, 1010}) {  // 1009 is prime, so is 1013.
    const ExampleSample sample = ExampleSample::Secret(examples, 100);
    std::set<uint32_t> slots;
    for (const uint32_t position : Sampled(sample)) {
      EXPECT_LT(*sample.SlotOf(position), sample.size());
      EXPECT_TRUE(slots.insert(*sample.SlotOf(position)).second);
    }
    // The primes are 1009 and 1013: that many slots at most belong to no position.
    EXPECT_GE(slots.size(), 100 - 9);
    EXPECT_LE(slots.size(), 100);
  }
}

// Each position is in it with probability 100 / 1009. Over 20,000 draws the count of one scatters with a standard
// deviation of 42.3; that one of four is six of them away happens by chance once in 10^8.
TEST(ExampleSampleTest, NoPositionIsLikelierThanAnotherInASecretSample) {
  constexpr int kDraws = 20'000;
  std::vector<int> counts(4);
  const uint32_t positions[] = {0, 1, 500, 999};
  for (int draw = 0; draw < kDraws; ++draw) {
    const ExampleSample sample = ExampleSample::Secret(1000, 100);
    for (size_t i = 0; i < counts.size(); ++i) {
      counts[i] += sample.Has(positions[i]) ? 1 : 0;
    }
  }
  for (const int count : counts) {
    EXPECT_NEAR(count, kDraws * 100.0 / 1009, 6 * 42.3);
  }
}

TEST(ExampleSampleTest, TheLargestTableFits) {
  const ExampleSample sample = ExampleSample::Secret(int64_t{1} << 32);
  EXPECT_EQ(sample.size(), ExampleSample::kMost);
  int found = 0;
  for (uint32_t position = 0; position < 4'000'000; ++position) {
    found += sample.Has(position) ? 1 : 0;
  }
  // A line modulo a prime spreads evenly over most slopes; 977 are expected.
  EXPECT_GT(found, 0);
}

TEST(ExampleSampleTest, MeasuresRowsThatAreSampledAndNotLeftOut) {
  const std::vector<uint32_t> positions = {7, 1, 0, 9, 2};
  EXPECT_THAT(MeasuredRows(positions, {}, ExampleSample(10)), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(MeasuredRows(positions, std::vector<uint32_t>{1, 3}, ExampleSample(10)), ElementsAre(0, 2, 4));
  EXPECT_THAT(MeasuredRows(positions, std::vector<uint32_t>{1}, ExampleSample(10, 3)), ElementsAre(2, 4));
}

// Two epochs: what is remembered adds up, the rest is scored by each release alone.
TEST(ExampleSampleTest, ACumulativeAttackRemembersTheSampleAlone) {
  const std::vector<float> rows = {1, 0, 2, 0, -1, 0, -2, 0}, directions = {1, 0, 1, 0, 1, 0, 1, 0},
                           probabilities(4, 0.5F);
  const std::vector<uint32_t> positions = {0, 1, 2, 3};
  ReleasingHead head;
  head.label_directions = ConstMatrixView(directions.data(), 4, 2);
  head.probabilities = probabilities;
  AttackScorer scorer{ExampleSample(4, 2)};
  std::vector<float> scores[2];
  for (std::vector<float>& of_epoch : scores) {
    AttackInput input;
    input.gradients = ConstMatrixView(rows.data(), 4, 2);
    input.positions = positions;
    input.head = &head;
    ASSERT_TRUE(scorer.Begin(input).ok());
    of_epoch = *scorer.Score(v1::CUMULATIVE_CONDITIONAL_LIKELIHOOD_RATIO);
  }
  for (size_t row = 0; row < 4; ++row) {
    EXPECT_FLOAT_EQ(scores[1][row], (row < 2 ? 2 : 1) * scores[0][row]) << row;
    EXPECT_NE(scores[0][row], 0) << row;
  }
}

}  // namespace
}  // namespace splitveil
