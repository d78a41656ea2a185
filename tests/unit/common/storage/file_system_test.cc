#include "common/storage/file_system.h"

#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
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

using ::testing::HasSubstr;

constexpr char kHeader[] = "id,probability\n";

TEST(OwnTableTest, MayTakeANameThatNothingHasOrAnEarlierTable) {
  const ScratchFolder folder;
  EXPECT_TRUE(CheckOwnTable(folder.Path("none"), kHeader).ok());
  EXPECT_TRUE(CheckOwnTable(folder.Path("no_folder/none"), kHeader).ok());
  EXPECT_TRUE(CheckOwnTable(folder.Write("earlier", "id,probability\na,0.5\n"), kHeader).ok());
  EXPECT_TRUE(CheckOwnTable(folder.Write("of_no_rows", kHeader), kHeader).ok());
}

TEST(OwnTableTest, FailsOnWhateverElseHasTheName) {
  const ScratchFolder folder;
  for (const char* const contents : {"", "id", "id,probability", "id,probability,x\n", "SQLite format 3"}) {
    const absl::Status status = CheckOwnTable(folder.Write("found", contents), kHeader);
    EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists) << contents;
    EXPECT_THAT(std::string(status.message()), HasSubstr("found: expected no file of this name, or an earlier table"));
  }
  EXPECT_EQ(CheckOwnTable(folder.Path("."), kHeader).code(), absl::StatusCode::kAlreadyExists);
  std::filesystem::create_symlink(folder.Path("found"), folder.Path("link"));
  EXPECT_EQ(CheckOwnTable(folder.Path("link"), kHeader).code(), absl::StatusCode::kAlreadyExists);
}

TEST(OwnTableTest, KnowsAFileByEveryName) {
  const ScratchFolder folder;
  const std::string file = folder.Write("file", "x"), other = folder.Write("other", "x");
  std::filesystem::create_symlink(file, folder.Path("link"));
  std::filesystem::create_hard_link(file, folder.Path("second"));
  EXPECT_TRUE(NameSameFile(file, folder.Path("./file")));
  EXPECT_TRUE(NameSameFile(file, folder.Path("link")));
  EXPECT_TRUE(NameSameFile(file, folder.Path("second")));
  EXPECT_FALSE(NameSameFile(file, other));
  // Of files that are still to be written, too.
  EXPECT_TRUE(NameSameFile(folder.Path("new/a"), folder.Path("new/../new/a")));
  EXPECT_FALSE(NameSameFile(folder.Path("new/a"), folder.Path("new/b")));
}

}  // namespace
}  // namespace splitveil
