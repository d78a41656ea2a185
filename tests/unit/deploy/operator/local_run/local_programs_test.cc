#include <fcntl.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <string>

#include "deploy/operator/local_run/two_party_run.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/process/file.h"
#include "tests/testing/process/temp_folder.h"

namespace splitveil {
namespace {

using ::testing::HasSubstr;

TEST(FolderLockTest, HoldsAFolderUntilItEnds) {
  testing::TempFolder folder;
  const std::string path = folder.File("new/deep");
  {
    const auto held = FolderLock::Take(path);
    ASSERT_TRUE(held.ok()) << held.status();
    const auto second = FolderLock::Take(path);
    EXPECT_EQ(second.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(second.status().message(), HasSubstr("runs of a different sweep, search or stream"));
    EXPECT_TRUE(FolderLock::Take(folder.File("other")).ok());
  }
  EXPECT_TRUE(FolderLock::Take(path).ok());
}

// What is unfinished there is removed: a project's own folder `check` must not be taken for it.
TEST(FolderLockTest, TakesNoFolderWhoseFilesOthersMade) {
  const testing::TempFolder folder;
  std::filesystem::create_directories(folder.File("project/check"));
  const absl::Status refused = FolderLock::Take(folder.File("project")).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(refused.message(), HasSubstr("project/check: expected a folder of earlier runs"));
  EXPECT_FALSE(std::filesystem::exists(folder.File("project/run.lock")));
  ASSERT_TRUE(FolderLock::Take(folder.File("sweep")).ok());
  std::filesystem::create_directories(folder.File("sweep/check"));
  EXPECT_TRUE(FolderLock::Take(folder.File("sweep")).ok());
}

TEST(FolderLockTest, FailsWhereThereCanBeNoFolder) {
  testing::TempFolder folder;
  ASSERT_TRUE(WriteFile(folder.File("file"), "").ok());
  EXPECT_THAT(FolderLock::Take(folder.File("file")).status().message(), HasSubstr("file/run.lock: cannot be opened"));
}

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class RunProgressTest : public ::testing::Test {
 protected:
  RunProgressTest() : fd_(open(path_.c_str(), O_WRONLY | O_CREAT, 0600)) {}
  ~RunProgressTest() override { close(fd_); }

  std::string Written() const { return ReadFile(path_).value(); }
  static RunFigures Figures() {
    RunFigures figures;
    figures.test.auc = 0.79;
    figures.seconds = 33.3;
    figures.attacks = {{"cut", "norm", "", {0.6, 0, 0.7, 10}}, {"cut", "activation_clusters", "", {0.9, 0, 0.981, 10}}};
    return figures;
  }

  testing::TempFolder folder_;
  const std::string path_ = folder_.File("progress.log");
  const int fd_;
};

TEST_F(RunProgressTest, SaysWhatEachRunReachedAndHowFarAllAre) {
  RunProgress progress(/*total=*/3, /*done=*/1, fd_);
  EXPECT_THAT(Written(), StartsWith("1 of 3 runs are finished already\n"));
  EXPECT_THAT(Written(), EndsWith(" INFO runs  1/3\n"));
  progress.Finished("none, seed 1", Figures());
  EXPECT_THAT(Written(), HasSubstr("\n[2/3] none, seed 1: test AUC 0.7900, strongest attack AUC 0.700, 33 s\n"));
  progress.Finished("none, seed 2", Figures());
  progress.Finish();
  EXPECT_THAT(Written(), EndsWith(" INFO runs  3/3\n"));
  EXPECT_TRUE(progress.Outcome().ok());
}

TEST_F(RunProgressTest, SaysHowMuchARegressionExplains) {
  RunFigures figures = Figures();
  figures.test.r_squared = 0.625;
  RunProgress progress(/*total=*/1, /*done=*/0, fd_);
  progress.Finished("none, seed 1", figures);
  EXPECT_THAT(Written(), HasSubstr("\n[1/1] none, seed 1: test R^2 0.6250, strongest attack AUC 0.700, 33 s\n"));
}

TEST_F(RunProgressTest, FailuresAreNamedAtTheEnd) {
  RunProgress progress(/*total=*/2, /*done=*/0, fd_);
  progress.Failed("none, seed 1", "none-1", absl::InternalError("label_party ended\nwith exit code 1"));
  progress.Finished("none, seed 2", Figures());
  const absl::Status outcome = progress.Outcome();
  EXPECT_EQ(outcome.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(outcome.message(), "1 of 2 runs failed; the same command repeats only those");
  EXPECT_THAT(Written(), HasSubstr("\n[1/2] none, seed 1: FAILED\n"));
  EXPECT_THAT(Written(), EndsWith("failed: none-1: label_party ended with exit code 1\n"));
}

TEST_F(RunProgressTest, RunsThatWereStoppedAreMissing) {
  RunProgress progress(/*total=*/4, /*done=*/1, fd_);
  progress.Finished("none, seed 1", Figures());
  EXPECT_THAT(std::string(progress.Outcome().message()), HasSubstr("stopped on request with 2 of 4 runs missing"));
}

TEST_F(RunProgressTest, NothingLeftToDoIsSaidInOneLine) {
  RunProgress progress(/*total=*/2, /*done=*/2, fd_);
  EXPECT_TRUE(progress.Outcome().ok());
  EXPECT_EQ(Written(), "2 of 2 runs are finished already\n");
}

}  // namespace

}  // namespace splitveil
