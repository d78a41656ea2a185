#include "common/operations/run_progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  progress.Report(12, 42);
  EXPECT_EQ(status.Snapshot().masked_ids(), 12);
  EXPECT_EQ(status.Snapshot().ids_to_mask(), 42);
  progress.Report(42, 42);
  progress.Finish();
  EXPECT_EQ(status.Snapshot().masked_ids(), 42);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("aligning  12/42\n"), HasSubstr("aligning  42/42"), Not(HasSubstr("loss"))));
}

}  // namespace
}  // namespace splitveil
