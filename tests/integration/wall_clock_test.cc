// Somebody sets the wall clock of both machines in the middle of a run: nobody is given up for silent, no deadline
// passes early, and the run completes.
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>

#include "absl/strings/str_cat.h"

#include "tests/testing/process/environment.h"
#include "tests/testing/two_party_run.h"

namespace splitveil::testing {
namespace {

using ::testing::HasSubstr;

constexpr int kHour = 3600;  // Seconds.

class WallClockTest : public ::testing::TestWithParam<int> {};

TEST_P(WallClockTest, ThatIsSetWhileARunGoesOnEndsNothing) {
  TwoPartyRun run(1000);
  for (v1::RunAgreement* agreement : {&run.label_agreement, &run.nonlabel_agreement}) {
    agreement->set_epochs(30);
    agreement->mutable_deadlines()->set_step_seconds(60);
  }
  const std::string jump = run.folder + "/jump";
  const Environment preload("LD_PRELOAD", JUMPING_WALL_CLOCK);
  const Environment file("SPLITVEIL_TEST_CLOCK_FILE", jump);
  const Environment seconds("SPLITVEIL_TEST_CLOCK_SECONDS", absl::StrCat(GetParam()));
  run.StartLabelParty();
  run.StartNonLabelParty();
  ASSERT_TRUE(run.nonlabel->WaitForError("aligned")) << run.nonlabel->Errors();
  std::ofstream(jump) << "now";
  EXPECT_EQ(run.nonlabel->Wait(), 0) << run.nonlabel->Errors();
  EXPECT_EQ(run.label->Wait(), 0) << run.label->Errors();
  EXPECT_THAT(run.label->Errors(), HasSubstr("completed at the label party"));
}

INSTANTIATE_TEST_SUITE_P(ForwardsAndBack, WallClockTest, ::testing::Values(130, -24 * kHour));

}  // namespace
}  // namespace splitveil::testing
