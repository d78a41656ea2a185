#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>

#include "common/operations/run_status.h"

namespace splitveil {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(AlignmentProgressTest, TellsTheStatusAndThePersonWhoWatches) {
  RunStatus status("nonlabel_party");
  ::testing::internal::CaptureStderr();
  AlignmentProgress progress(&status);
  EXPECT_EQ(status.Snapshot().phase(), "aligning");
  EXPECT_EQ(status.Snapshot().ids_to_mask(), 0);
  progress.Report(12, 42, 1000);
  EXPECT_EQ(status.Snapshot().masked_ids(), 12);
  EXPECT_EQ(status.Snapshot().ids_to_mask(), 42);
  progress.Report(42, 42, 3'000'000);
  progress.Finish();
  EXPECT_EQ(status.Snapshot().masked_ids(), 42);
  EXPECT_EQ(status.Snapshot().alignment_bytes(), 3'000'000);
  EXPECT_GT(status.Snapshot().masked_ids_per_second(),
            30);  // The 30 ids after the first report, in less than a second.
  EXPECT_EQ(status.Snapshot().alignment_seconds_left(), 0);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("aligning  12/42  0.0 MB\n"), HasSubstr("aligning  42/42"), HasSubstr("  3.0 MB\n"),
                    Not(HasSubstr("loss"))));
}

using std::chrono::milliseconds;

double Sum(const StepTimeRow& row) {
  double sum = 0;
  for (double StepTimeRow::*phase : kStepPhases) {
    sum += row.*phase;
  }
  return sum;
}

class StepStopwatchTest : public ::testing::Test {
 protected:
  // Lets time pass, then laps.
  void Spend(int64_t amount, StepStopwatch::Phase phase) {
    now_ += milliseconds(amount);
    stopwatch_.Lap(phase);
  }

  StepStopwatch::Clock::time_point now_{};
  StepStopwatch stopwatch_{[this] { return now_; }};
  StepRow row_;
};

TEST_F(StepStopwatchTest, EachLapCountsForItsPhase) {
  Spend(10, &StepTimeRow::forward);
  Spend(20, &StepTimeRow::wait);
  Spend(30, &StepTimeRow::forward);
  row_.step = 7;
  const StepTimeRow times = stopwatch_.Finish(row_);
  EXPECT_EQ(times.step, 7);
  EXPECT_DOUBLE_EQ(times.forward, 0.04);
  EXPECT_DOUBLE_EQ(times.wait, 0.02);
  EXPECT_DOUBLE_EQ(Sum(times), 0.06);
  EXPECT_DOUBLE_EQ(row_.seconds, 0.06);
}

TEST_F(StepStopwatchTest, TheNextStepStartsWhereTheLastOneEnded) {
  Spend(10, &StepTimeRow::attacks);
  now_ += milliseconds(5);  // After the last lap: of the next step.
  stopwatch_.Finish(row_);
  EXPECT_DOUBLE_EQ(row_.seconds, 0.01);
  Spend(1, &StepTimeRow::data);
  const StepTimeRow second = stopwatch_.Finish(row_);
  EXPECT_DOUBLE_EQ(second.data, 0.006);
  EXPECT_DOUBLE_EQ(second.attacks, 0);
  EXPECT_DOUBLE_EQ(row_.seconds, 0.006);
}

TEST_F(StepStopwatchTest, ThePhasesOfManyStepsAddUpToTheirSeconds) {
  std::mt19937 random(3);
  for (int step = 0; step < 1000; ++step) {
    for (double StepTimeRow::*phase : kStepPhases) {
      now_ += std::chrono::nanoseconds(random() % 1'000'000);
      stopwatch_.Lap(phase);
    }
    stopwatch_.Move(1e-7, &StepTimeRow::backward, &StepTimeRow::forward);
    const StepTimeRow times = stopwatch_.Finish(row_);
    ASSERT_NEAR(Sum(times), row_.seconds, 1e-12);
  }
}

TEST_F(StepStopwatchTest, RestartLeavesOutWhatHasPassed) {
  Spend(10, &StepTimeRow::wire);
  now_ += milliseconds(1000);
  stopwatch_.Restart();
  Spend(2, &StepTimeRow::wire);
  EXPECT_DOUBLE_EQ(stopwatch_.Finish(row_).wire, 0.002);
  EXPECT_DOUBLE_EQ(row_.seconds, 0.002);
}

TEST_F(StepStopwatchTest, MovesNoMoreThanThereIsAndNothingBack) {
  Spend(10, &StepTimeRow::backward);
  stopwatch_.Move(4e-3, &StepTimeRow::backward, &StepTimeRow::forward);
  stopwatch_.Move(1, &StepTimeRow::wait, &StepTimeRow::forward);
  stopwatch_.Move(-1, &StepTimeRow::backward, &StepTimeRow::forward);
  StepTimeRow times = stopwatch_.Finish(row_);
  EXPECT_DOUBLE_EQ(times.backward, 0.006);
  EXPECT_DOUBLE_EQ(times.forward, 0.004);
  EXPECT_DOUBLE_EQ(times.wait, 0);
}

TEST_F(StepStopwatchTest, AStepWithoutLapsTookNoTime) {
  now_ += milliseconds(3);
  EXPECT_DOUBLE_EQ(Sum(stopwatch_.Finish(row_)), 0);
  EXPECT_DOUBLE_EQ(row_.seconds, 0);
}

}  // namespace
}  // namespace splitveil
