#include "common/storage/sync_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>

#include "tests/testing/scratch_folder.h"

namespace splitveil {
namespace {

TEST(SyncFolderTest, SyncsTheFolderOfAName) {
  const ScratchFolder folder;
  EXPECT_TRUE(SyncFolderOf(folder.Path("a")).ok());
  EXPECT_TRUE(SyncFolderOf("a").ok());
}

TEST(SyncFolderTest, TellsOfAFolderThatIsNone) {
  const ScratchFolder folder;
  folder.Write("file", "text");
  for (const std::string& path : {folder.Path("absent/a"), folder.Path("file/a")}) {
    const absl::Status status = SyncFolderOf(path);
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(path + ": its folder cannot be made durable: "));
  }
}

}  // namespace
}  // namespace splitveil
