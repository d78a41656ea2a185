#include "common/process/file.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/testing/process/temp_folder.h"

namespace splitveil {
namespace {

using ::testing::HasSubstr;

size_t EntriesIn(const testing::TempFolder& folder) {
  return std::distance(std::filesystem::directory_iterator(folder.path()), std::filesystem::directory_iterator());
}

mode_t ModeOf(const std::string& path) {
  struct stat state = {};
  EXPECT_EQ(stat(path.c_str(), &state), 0);
  return state.st_mode & 0777;
}

// Makes every write beyond `bytes` fail, as a full disk does, for the lifetime of the object.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit = {bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  void (*handler_)(int);
  rlimit before_ = {};
};

TEST(ReadFileTest, ReturnsBytesAsWritten) {
  testing::TempFolder folder;
  const std::string contents("a\0b\r\n", 5);
  ASSERT_TRUE(WriteFile(folder.File("f"), contents).ok());
  EXPECT_EQ(ReadFile(folder.File("f")).value(), contents);
}

TEST(ReadFileTest, ReadsMoreThanOneBuffer) {
  testing::TempFolder folder;
  const std::string contents(300000, 'x');
  ASSERT_TRUE(WriteFile(folder.File("f"), contents).ok());
  EXPECT_EQ(ReadFile(folder.File("f")).value(), contents);
}

TEST(ReadFileTest, FailsWithTheNameWhereThereIsNoFile) {
  const absl::Status status = ReadFile("/no/such/file").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(status.message(), "/no/such/file: no such file");
}

TEST(ReadFileTest, FailsOnAFolder) {
  testing::TempFolder folder;
  const absl::Status status = ReadFile(folder.path()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("Is a directory"));
}

TEST(WriteFileTest, ReplacesAndLeavesNothingElse) {
  testing::TempFolder folder;
  ASSERT_TRUE(WriteFile(folder.File("f"), "old").ok());
  ASSERT_TRUE(WriteFile(folder.File("f"), "new").ok());
  EXPECT_EQ(ReadFile(folder.File("f")).value(), "new");
  EXPECT_EQ(EntriesIn(folder), 1);
}

TEST(WriteFileTest, IsNotStoppedByTheTemporaryOfAKilledProcess) {
  testing::TempFolder folder;
  ASSERT_TRUE(CreateFile(folder.File("f." + std::to_string(getpid()) + ".partial"), "half").ok());
  EXPECT_TRUE(WriteFile(folder.File("f"), "whole").ok());
  EXPECT_EQ(EntriesIn(folder), 1);
}

TEST(WriteFileTest, FailsInAMissingFolderAndNamesTheFileAskedFor) {
  testing::TempFolder folder;
  const absl::Status status = WriteFile(folder.File("none/f"), "x");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), folder.File("none/f") + ": cannot be created: No such file or directory");
}

TEST(WriteFileTest, FailsOntoAFolderAndLeavesNoTrace) {
  testing::TempFolder folder;
  std::filesystem::create_directory(folder.File("d"));
  EXPECT_EQ(WriteFile(folder.File("d"), "x").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(EntriesIn(folder), 1);
}

TEST(WriteFileTest, KeepsTheOldContentsWhereTheDiskIsFull) {
  testing::TempFolder folder;
  ASSERT_TRUE(WriteFile(folder.File("f"), "old").ok());
  {
    FileSizeLimit limit(1000);
    const absl::Status status = WriteFile(folder.File("f"), std::string(5000, 'x'));
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(status.message()), HasSubstr("cannot be written"));
  }
  EXPECT_EQ(ReadFile(folder.File("f")).value(), "old");
  EXPECT_EQ(EntriesIn(folder), 1);
}

TEST(WriteFileTest, AProcessThatIsKilledInTheMiddleLeavesTheOldContentsAndNothingElse) {
  testing::TempFolder folder;
  ASSERT_TRUE(WriteFile(folder.File("f"), "old").ok());
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_DFL);  // Kills at the write that would go beyond the limit.
    const rlimit limit = {1000, RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &limit);
    WriteFile(folder.File("f"), std::string(5000, 'x')).IgnoreError();
    _exit(1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(ReadFile(folder.File("f")).value(), "old");
  EXPECT_EQ(EntriesIn(folder), 1);
}

TEST(CreateFileTest, GivesTheModeLessTheUmask) {
  testing::TempFolder folder;
  const mode_t before = umask(022);
  ASSERT_TRUE(CreateFile(folder.File("key"), "secret", 0600).ok());
  ASSERT_TRUE(CreateFile(folder.File("certificate"), "public", 0666).ok());
  ASSERT_TRUE(CreateFile(folder.File("ids"), "").ok());
  ASSERT_TRUE(WriteFile(folder.File("figures"), "").ok());
  umask(before);
  EXPECT_EQ(ModeOf(folder.File("ids")), 0600);
  EXPECT_EQ(ModeOf(folder.File("figures")), 0600);
  EXPECT_EQ(ModeOf(folder.File("key")), 0600);
  EXPECT_EQ(ModeOf(folder.File("certificate")), 0644);
}

TEST(CreateFileTest, NeverReplaces) {
  testing::TempFolder folder;
  ASSERT_TRUE(CreateFile(folder.File("f"), "old").ok());
  const absl::Status status = CreateFile(folder.File("f"), "new");
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(status.message()), HasSubstr(folder.File("f")));
  EXPECT_EQ(ReadFile(folder.File("f")).value(), "old");
}

TEST(CreateFileTest, DoesNotFollowADanglingLink) {
  testing::TempFolder folder;
  std::filesystem::create_symlink(folder.File("elsewhere"), folder.File("f"));
  EXPECT_EQ(CreateFile(folder.File("f"), "x").code(), absl::StatusCode::kAlreadyExists);
  EXPECT_FALSE(std::filesystem::exists(folder.File("elsewhere")));
}

TEST(CreateFileTest, RemovesWhatItCouldNotFinish) {
  testing::TempFolder folder;
  FileSizeLimit limit(1000);
  EXPECT_EQ(CreateFile(folder.File("f"), std::string(5000, 'x')).code(), absl::StatusCode::kInternal);
  EXPECT_EQ(EntriesIn(folder), 0);
}

}  // namespace
}  // namespace splitveil
