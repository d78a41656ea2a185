#include "common/schedule/schedule.h"

#include <algorithm>
#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <iterator>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "tests/testing/hex.h"

namespace splitveil {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

// The seed of joint_seed_test's exchange.
JointSeed Seed(uint8_t tweak = 0) {
  const std::string bytes = BytesFromHex("4b4696dd89d56ab29cbbafd5fb3172ac09e769c7cf9a2f9f5f46b98ab108dd53");
  JointSeed seed;
  std::copy(bytes.begin(), bytes.end(), seed.begin());
  seed[0] ^= tweak;
  return seed;
}

std::vector<uint32_t> Iota(size_t count) {
  std::vector<uint32_t> positions(count);
  std::iota(positions.begin(), positions.end(), 0U);
  return positions;
}

Schedule MakeSchedule(size_t examples, int64_t batch_size, int64_t minimum_batch_size) {
  return *Schedule::Create(Seed(), Iota(examples), {batch_size, minimum_batch_size});
}

// All rows of an epoch, in order.
std::vector<uint32_t> EpochRows(Schedule& schedule, uint32_t epoch) {
  std::vector<uint32_t> rows;
  for (int64_t batch = 0; batch < schedule.batches_per_epoch(); ++batch) {
    const absl::Span<const uint32_t> batch_rows = schedule.BatchRows(epoch, batch);
    rows.insert(rows.end(), batch_rows.begin(), batch_rows.end());
  }
  return rows;
}

std::vector<int64_t> BatchSizes(Schedule& schedule) {
  std::vector<int64_t> sizes;
  for (int64_t batch = 0; batch < schedule.batches_per_epoch(); ++batch) {
    sizes.push_back(schedule.batch_rows(batch));
    EXPECT_EQ(schedule.BatchRows(0, batch).size(), sizes.back());
  }
  return sizes;
}

absl::StatusCode CreateCode(std::vector<uint32_t> train, const ScheduleOptions& options) {
  return Schedule::Create(Seed(), std::move(train), options).status().code();
}

// Expected values: computed in Python from the definitions in the header.
TEST(ScheduleTest, MatchesAnIndependentImplementation) {
  Schedule schedule = MakeSchedule(20, 8, 2);
  EXPECT_THAT(EpochRows(schedule, 0),
              ElementsAre(9, 11, 8, 1, 14, 5, 6, 16, 3, 7, 0, 10, 12, 18, 19, 17, 4, 13, 15, 2));
  EXPECT_THAT(EpochRows(schedule, 7),
              ElementsAre(17, 8, 5, 2, 14, 13, 0, 12, 7, 16, 1, 15, 10, 6, 9, 3, 19, 4, 18, 11));
}

TEST(ScheduleTest, UsesEachPositionOnceAnEpoch) {
  std::vector<uint32_t> train = Iota(5000);
  train.erase(std::remove_if(train.begin(), train.end(), [](uint32_t position) { return position % 5 == 3; }),
              train.end());
  Schedule schedule = *Schedule::Create(Seed(), train, {128, 16});
  EXPECT_EQ(schedule.positions(), train);
  EXPECT_EQ(schedule.examples(), 4000);
  for (uint32_t epoch : {0U, 1U, 0xffffffffU}) {
    std::vector<uint32_t> rows = EpochRows(schedule, epoch);
    EXPECT_NE(rows, train);
    std::sort(rows.begin(), rows.end());
    EXPECT_EQ(rows, train);
  }
}

TEST(ScheduleTest, EpochsDiffer) {
  Schedule schedule = MakeSchedule(1000, 100, 10);
  EXPECT_NE(EpochRows(schedule, 0), EpochRows(schedule, 1));
}

TEST(ScheduleTest, PartiesAgreeWhateverTheyAskedForBefore) {
  Schedule label = MakeSchedule(1000, 64, 16);
  Schedule nonlabel = MakeSchedule(1000, 64, 16);
  EpochRows(label, 5);
  const absl::Span<const uint32_t> rows = nonlabel.BatchRows(2, 3);
  EXPECT_THAT(label.BatchRows(2, 3), ElementsAreArray(rows.begin(), rows.end()));
}

TEST(ScheduleTest, AnOrderThatIsDrawnAheadIsTheSame) {
  const int64_t kEpochs = 3;
  Schedule alone = MakeSchedule(1000, 10, 1);
  Schedule made = *Schedule::Create(Seed(), Iota(1000), {10, 1, kEpochs});
  const Schedule::Order first = made.DrawAhead(0);
  Schedule schedule = std::move(made);  // While it is drawn.
  for (uint32_t epoch = 0; epoch < kEpochs; ++epoch) {
    const Schedule::Order order = schedule.DrawAhead(epoch);
    EXPECT_EQ(order.get(), EpochRows(alone, epoch));
    EXPECT_EQ(EpochRows(schedule, epoch), order.get()) << "asks for the next one at its end";
    // Not drawn a second time.
    EXPECT_EQ(schedule.BatchRows(epoch, 7).data(), order.get().data() + 70);
    EXPECT_EQ(schedule.RowsIn(order, 7).data(), schedule.BatchRows(epoch, 7).data());
  }
  EXPECT_EQ(first.get(), EpochRows(alone, 0));
  EXPECT_EQ(schedule.epochs(), kEpochs);
}

TEST(ScheduleTest, DependsOnTheSeed) {
  Schedule schedule = MakeSchedule(1000, 64, 16);
  Schedule other = *Schedule::Create(Seed(1), Iota(1000), {64, 16});
  EXPECT_NE(EpochRows(schedule, 0), EpochRows(other, 0));
}

TEST(ScheduleTest, EveryPermutationIsEquallyLikely) {
  // Chi-square over the 24 permutations of 4 over 24,000 epochs; 23 degrees of freedom exceed 72.5 with probability
  // 5e-7. The seed is fixed, so this does not flake.
  Schedule schedule = MakeSchedule(4, 4, 1);
  std::vector<int> counts(256, 0);
  for (uint32_t epoch = 0; epoch < 24000; ++epoch) {
    const absl::Span<const uint32_t> rows = schedule.BatchRows(epoch, 0);
    ++counts[rows[0] | rows[1] << 2 | rows[2] << 4 | rows[3] << 6];
  }
  double chi_square = 0;
  int permutations = 0;
  for (int count : counts) {
    if (count > 0) {
      chi_square += (count - 1000.0) * (count - 1000.0) / 1000;
      ++permutations;
    }
  }
  EXPECT_EQ(permutations, 24);
  EXPECT_LT(chi_square, 72.5);
}

TEST(ScheduleTest, ARestOfTheMinimumIsABatch) {
  Schedule schedule = MakeSchedule(216, 100, 16);
  EXPECT_THAT(BatchSizes(schedule), ElementsAre(100, 100, 16));
}

TEST(ScheduleTest, ASmallerRestJoinsTheLastBatch) {
  Schedule schedule = MakeSchedule(215, 100, 16);
  EXPECT_THAT(BatchSizes(schedule), ElementsAre(100, 115));
}

TEST(ScheduleTest, WithoutARestAllBatchesAreFull) {
  Schedule schedule = MakeSchedule(200, 100, 100);
  EXPECT_THAT(BatchSizes(schedule), ElementsAre(100, 100));
}

TEST(ScheduleTest, FewerExamplesThanABatchAreOneBatch) {
  Schedule schedule = MakeSchedule(16, 100, 16);
  EXPECT_THAT(BatchSizes(schedule), ElementsAre(16));
}

TEST(ScheduleTest, CreateFailsForFewerExamplesThanTheMinimum) {
  EXPECT_EQ(CreateCode(Iota(15), {100, 16}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CreateCode({}, {1, 1}), absl::StatusCode::kInvalidArgument);
}

TEST(ScheduleTest, CreateFailsForOptionsOutOfRange) {
  EXPECT_EQ(CreateCode(Iota(100), {0, 0}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CreateCode(Iota(100), {10, 0}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CreateCode(Iota(100), {-10, -20}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CreateCode(Iota(100), {10, 11}), absl::StatusCode::kInvalidArgument);
}

TEST(ScheduleTest, CreateFailsForAPositionThatWouldBeUsedTwice) {
  EXPECT_EQ(CreateCode({0, 1, 1, 2}, {2, 1}), absl::StatusCode::kInvalidArgument);
}

TEST(ScheduleTest, CreateFailsForPositionsInAPartysOwnOrder) {
  EXPECT_EQ(CreateCode({0, 2, 1, 3}, {2, 1}), absl::StatusCode::kInvalidArgument);
}

TEST(ScheduleDeathTest, AbortsForABatchThatDoesNotExist) {
  Schedule schedule = MakeSchedule(215, 100, 16);
  EXPECT_DEATH(schedule.batch_rows(2), "batch < batches_per_epoch");
  EXPECT_DEATH(schedule.BatchRows(0, -1), "0 <= batch");
  EXPECT_DEATH(schedule.BatchRows(0, 2), "batch < batches_per_epoch");
}

}  // namespace
}  // namespace splitveil
