#include "deploy/operator/local_run/local_programs.h"

#include <string>

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
    EXPECT_THAT(second.status().message(), HasSubstr("expected no other sweep"));
    EXPECT_TRUE(FolderLock::Take(folder.File("other")).ok());
  }
  EXPECT_TRUE(FolderLock::Take(path).ok());
}

TEST(FolderLockTest, FailsWhereThereCanBeNoFolder) {
  testing::TempFolder folder;
  ASSERT_TRUE(WriteFile(folder.File("file"), "").ok());
  EXPECT_THAT(FolderLock::Take(folder.File("file")).status().message(), HasSubstr("file/run.lock: cannot be opened"));
}

}  // namespace
}  // namespace splitveil
