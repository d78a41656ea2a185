#include <cmath>
#include <cstdint>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <vector>

#include "common/dataset/feature_table.h"
#include "common/dataset/party_data.h"

namespace splitveil {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

PartyData OneNumber(std::vector<float> values) {
  PartyData data;
  for (size_t i = 0; i < values.size(); ++i) {
    data.ids.push_back(std::to_string(i));
  }
  data.numeric.push_back({"n", std::move(values)});
  return data;
}

PartyData TwoCategories() {
  PartyData data;
  data.ids = {"0", "1", "2", "3", "4"};
  data.categorical.push_back({"c", {"x", "", "y", "z"}, {0, 1, 2, 3, 0}});
  data.categorical.push_back({"d", {"u", "v"}, {0, 0, 1, 1, 1}});
  return data;
}

const std::vector<uint32_t> kAllFive = {0, 1, 2, 3, 4};

std::vector<float> Scaled(const PartyData& data, const std::vector<uint32_t>& rows,
                          const std::vector<uint32_t>& train) {
  absl::StatusOr<FeatureTable> table = BuildFeatures(data, rows, train);
  EXPECT_TRUE(table.ok()) << table.status();
  std::vector<uint32_t> positions(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    positions[i] = static_cast<uint32_t>(i);
  }
  const FeatureBatch batch = table->Gather(positions);
  return {batch.numeric.data(), batch.numeric.data() + batch.numeric.size()};
}

TEST(FeaturesTest, ScalesByTheTrainingRangeAndClipsTheRest) {
  EXPECT_THAT(Scaled(OneNumber({2, 4, 3, 100, -100}), kAllFive, {0, 1, 2}), ElementsAre(0, 1, 0.5, 1, 0));
}

TEST(FeaturesTest, TakesAnEmptyCellForZeroBeforeItFindsTheRange) {
  EXPECT_THAT(Scaled(OneNumber({kNan, 4, 1, 2, 8}), kAllFive, {0, 1}), ElementsAre(0, 1, 0.25, 0.5, 1));
  EXPECT_THAT(Scaled(OneNumber({-4, 4, kNan, 0, 0}), kAllFive, {0, 1}), ElementsAre(0, 1, 0.5, 0.5, 0.5));
}

TEST(FeaturesTest, MakesAConstantColumnZero) {
  EXPECT_THAT(Scaled(OneNumber({7, 7, 7, 9, kNan}), kAllFive, {0, 1, 2}), ElementsAre(0, 0, 0, 0, 0));
}

TEST(FeaturesTest, ScalesARangeThatOverflowsAFloat) {
  const float max = std::numeric_limits<float>::max();
  EXPECT_THAT(Scaled(OneNumber({-max, max, 0, 0, 0}), kAllFive, {0, 1}), ElementsAre(0, 1, 0.5, 0.5, 0.5));
}

TEST(FeaturesTest, FollowsTheAlignedOrder) {
  // `train` counts positions: position 0 is row 4 here.
  EXPECT_THAT(Scaled(OneNumber({0, 1, 2, 3, 4}), {4, 0, 2}, {0, 1}), ElementsAre(1, 0, 0.5));
}

TEST(FeaturesTest, GivesUnseenValuesOneIndexAndColumnsOneTable) {
  // Training: x and the empty string of c, u of d. Table: c other, x, empty; d other, u.
  absl::StatusOr<FeatureTable> table = BuildFeatures(TwoCategories(), kAllFive, {0, 1});
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->shape().categorical, 2);
  EXPECT_EQ(table->shape().embedding_rows, 5);
  EXPECT_THAT(table->Gather(kAllFive).categories, ElementsAre(1, 4, 2, 4, 0, 3, 0, 3, 1, 3));
}

TEST(FeaturesTest, CountsTheMissingValueAsUnseenWhereTrainingLacksIt) {
  absl::StatusOr<FeatureTable> table = BuildFeatures(TwoCategories(), kAllFive, {0, 2});
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->Gather({1}).categories[0], 0);
}

TEST(FeaturesTest, IndexesDoNotDependOnTheAlignedOrder) {
  const std::vector<uint32_t> reversed = {4, 3, 2, 1, 0};
  absl::StatusOr<FeatureTable> forward = BuildFeatures(TwoCategories(), kAllFive, kAllFive);
  absl::StatusOr<FeatureTable> backward = BuildFeatures(TwoCategories(), reversed, kAllFive);
  ASSERT_TRUE(forward.ok() && backward.ok());
  EXPECT_EQ(forward->Gather(kAllFive).categories, backward->Gather(reversed).categories);
}

TEST(FeaturesTest, GathersPositionsInTheirOrderWithRepeats) {
  absl::StatusOr<FeatureTable> table = BuildFeatures(OneNumber({0, 1, 2, 3, 4}), kAllFive, kAllFive);
  ASSERT_TRUE(table.ok()) << table.status();
  const FeatureBatch batch = table->Gather({4, 0, 4});
  EXPECT_EQ(batch.rows, 3);
  EXPECT_THAT(batch.numeric.row(0), ElementsAre(1));
  EXPECT_THAT(batch.numeric.row(1), ElementsAre(0));
  EXPECT_THAT(batch.numeric.row(2), ElementsAre(1));
  EXPECT_THAT(batch.categories, IsEmpty());
  EXPECT_EQ(table->Gather({}).rows, 0);
}

TEST(FeaturesTest, FailsWithoutTrainingRows) {
  EXPECT_EQ(BuildFeatures(TwoCategories(), kAllFive, {}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(FeaturesTest, FailsOnARowOrPositionOutOfRange) {
  EXPECT_EQ(BuildFeatures(TwoCategories(), {0, 5}, {0}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(BuildFeatures(TwoCategories(), {0, 4}, {2}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(FeaturesTest, FailsOnColumnsOfAnotherLength) {
  PartyData numbers = OneNumber({1, 2, 3});
  numbers.numeric[0].values.pop_back();
  EXPECT_EQ(BuildFeatures(numbers, {0}, {0}).status().code(), absl::StatusCode::kInvalidArgument);
  PartyData categories = TwoCategories();
  categories.categorical[1].codes.push_back(0);
  EXPECT_EQ(BuildFeatures(categories, {0}, {0}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(FeaturesTest, FailsOnACodeWithoutValue) {
  for (const int32_t code : {-1, 4}) {
    PartyData data = TwoCategories();
    data.categorical[0].codes[3] = code;
    EXPECT_EQ(BuildFeatures(data, {0}, {0}).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(FeaturesTest, FailsOnAnInfiniteNumber) {
  const PartyData data = OneNumber({1, std::numeric_limits<float>::infinity(), 3, 4, 5});
  EXPECT_EQ(BuildFeatures(data, kAllFive, {0}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(BuildFeatures(data, kAllFive, {1}).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace splitveil
