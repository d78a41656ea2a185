#include "common/operations/dry_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/time/clock.h"

#include "common/process/steady_time.h"

namespace splitveil {
namespace {

using ::testing::HasSubstr;

TEST(DryRunTest, ListsEachCheckInItsOrder) {
  DryRun dry_run;
  EXPECT_TRUE(dry_run.Check("agreement", absl::OkStatus(), "run.textproto"));
  dry_run.Warn("certificates", "ends soon");
  EXPECT_EQ(dry_run.Text(), "ok       agreement        run.textproto\nwarning  certificates     ends soon\n");
  EXPECT_EQ(dry_run.status(), absl::OkStatus()) << "a warning is none";
}

TEST(DryRunTest, AProblemHidesNoOther) {
  DryRun dry_run;
  EXPECT_FALSE(dry_run.Check("data", absl::NotFoundError("x.data: cannot be opened"), "unused"));
  EXPECT_TRUE(dry_run.Check("model", absl::OkStatus()));
  dry_run.Problem("policy", "halts in epoch 1");
  EXPECT_THAT(dry_run.Text(), HasSubstr("problem  data             x.data: cannot be opened\n"));
  EXPECT_THAT(dry_run.Text(), HasSubstr("problem  policy           halts in epoch 1\n"));
  EXPECT_EQ(dry_run.status(), absl::InvalidArgumentError("dry run: 2 of 3 checks failed, the first: data: x.data: "
                                                         "cannot be opened"));
}

TEST(DryRunTest, TextStaysOneLineACheck) {
  DryRun dry_run;
  dry_run.Warn("data", "a\nb\033[2J");
  EXPECT_EQ(dry_run.Text(), "warning  data             a b [2J\n");
}

// What OPERATIONS.md has measured, memory within 25%; times by the speed of the machine.
TEST(RunExpectationTest, IsWhatSizingMeasured) {
  v1::RunAgreement agreement;
  agreement.set_cut_width(128);
  agreement.set_epochs(1);
  agreement.set_test_fraction(0);
  const double gib = 1 << 30;
  for (const auto& [rows, measured_gib] :
       {std::pair(200'000, 0.21), {1'000'000, 0.35}, {10'000'000, 1.33}, {45'000'000, 5.1}}) {
    EXPECT_NEAR(ExpectRun(agreement, rows, 0, 2, {}).peak_memory_bytes / gib, measured_gib, 0.25 * measured_gib)
        << rows;
  }
  agreement.set_batch_size(1000);
  const MachineSpeed speed = {132e-6, 0.002};
  const RunExpectation ten_million = ExpectRun(agreement, 10'000'000, 0, 2, speed);
  EXPECT_NEAR(ten_million.alignment_seconds, 660, 1e-6) << "own ids and the peer's, on two processors";
  EXPECT_NEAR(ten_million.training_seconds, 20, 1e-6) << "10,000 batches, of this half alone";
  EXPECT_NEAR(ten_million.bytes_each_way, 5.12e9, 1e7);
  EXPECT_NEAR(ExpectRun(agreement, 10'000'000, 0, 4, speed).alignment_seconds, 330, 1e-6);
}

TEST(RunExpectationTest, HalfThePrecisionIsHalfTheTraffic) {
  v1::RunAgreement agreement;
  agreement.set_cut_width(64);
  const double full = ExpectRun(agreement, 1000, 0, 1, {}).bytes_each_way;
  agreement.set_wire_dtype(v1::BFLOAT16);
  EXPECT_EQ(ExpectRun(agreement, 1000, 0, 1, {}).bytes_each_way, full / 2);
}

TEST(MeasureMachineTest, MeasuresThisMachineForAboutTwoSeconds) {
  const SteadyTime start = SteadyNow();
  int steps = 0;
  const auto speed = MeasureMachine([&] {
    absl::SleepFor(absl::Milliseconds(20));
    ++steps;
    return absl::OkStatus();
  });
  ASSERT_TRUE(speed.ok()) << speed.status();
  EXPECT_GE(speed->step_seconds, 0.02);
  EXPECT_LE(speed->step_seconds * (steps - 1), 1.5) << "the mean of the second that was measured";
  EXPECT_GT(speed->id_seconds, 1e-6) << "no processor multiplies a point in a microsecond";
  EXPECT_LT(speed->id_seconds, 0.01);
  EXPECT_GE(SecondsSince(start), 2);
}

TEST(MeasureMachineTest, FailsWhereAStepDoes) {
  EXPECT_EQ(MeasureMachine([] { return absl::InvalidArgumentError("model"); }).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(RunExpectationTest, KnowsWhatMemoryIsFree) { EXPECT_GT(AvailableMemoryBytes(), 1 << 20); }

}  // namespace
}  // namespace splitveil
