#include "common/storage/file_system.h"

#include <sys/stat.h>

#include <cerrno>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>

#include "tests/testing/scratch_folder.h"

namespace splitveil {
namespace {

mode_t ModeOf(const std::string& path) {
  struct stat facts = {};
  EXPECT_EQ(stat(path.c_str(), &facts), 0) << path;
  return facts.st_mode & 07777;
}

TEST(MakeFoldersTest, NobodyElseMayWriteWhateverTheUmask) {
  const ScratchFolder folder;
  const mode_t before = umask(0);  // Hides nothing.
  EXPECT_FALSE(MakeFolders(folder.Path("a/b/")));
  umask(077);
  EXPECT_FALSE(MakeFolders(folder.Path("a/c")));
  umask(before);
  EXPECT_EQ(ModeOf(folder.Path("a")), 0755);
  EXPECT_EQ(ModeOf(folder.Path("a/b")), 0755);
  EXPECT_EQ(ModeOf(folder.Path("a/c")), 0700);
  EXPECT_FALSE(MakeFolders(folder.Path("a/b"))) << "is there";
}

TEST(MakeFoldersTest, SaysWhatIsInTheWay) {
  const ScratchFolder folder;
  folder.Write("file", "text");
  EXPECT_EQ(MakeFolders(folder.Path("file")), std::errc::not_a_directory);
  EXPECT_EQ(MakeFolders(folder.Path("file/a")), std::errc::not_a_directory);
}

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
