#include "common/command_line/renamed_flags.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/command_line/command_line.h"

namespace splitveil {
namespace {

TEST(RenamedFlagsTest, KnowsTheNewNameOfAFlagOfThatCommandOnly) {
  EXPECT_EQ(NewFlagOf("splitveil marvell", "--max_auc"), "--max_run_auc_bound");
  EXPECT_EQ(NewFlagOf("splitveil report", "--max_auc"), "");
  EXPECT_EQ(NewFlagOf("splitveil marvell", "--max_run_auc_bound"), "");
}

TEST(RenamedFlagsTest, ACommandLineThatWorkedOnceIsAnsweredWithTheNewName) {
  CommandLine line({"splitveil", "A tool for tests.", "splitveil marvell"});
  line.AddCommand({"marvell", "Solve.", "splitveil marvell", "Analysis"}, [] { return ExitCode::kDone; });
  std::vector<std::string> words = {"splitveil", "marvell", "--max_auc=0.8"};
  std::vector<char*> argv;
  for (std::string& word : words) {
    argv.push_back(word.data());
  }
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(line.Main(static_cast<int>(argv.size()), argv.data()), 2);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "splitveil marvell: error: command line: --max_auc: was renamed to --max_run_auc_bound\n");
}

}  // namespace
}  // namespace splitveil
