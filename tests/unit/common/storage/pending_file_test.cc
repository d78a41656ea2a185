#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"

#include "common/storage/file_system.h"
#include "tests/testing/scratch_folder.h"

namespace splitveil {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

TEST(PendingFileTest, AppearsUnderItsNameOnlyWhenPublished) {
  const ScratchFolder folder;
  std::unique_ptr<PendingFile> file = *PendingFile::Create(folder.Path("a"));
  ASSERT_TRUE(file->Append("text").ok());
  EXPECT_FALSE(std::filesystem::exists(folder.Path("a")));
  ASSERT_TRUE(PendingFile::Publish({file.get()}).ok());
  EXPECT_THAT(folder.Names(), ElementsAre("a"));
  EXPECT_EQ(folder.Read("a"), "text");
  file.reset();
  EXPECT_EQ(folder.Read("a"), "text");
}

TEST(PendingFileTest, ReplacesAnOlderFile) {
  const ScratchFolder folder;
  folder.Write("a", "older");
  std::unique_ptr<PendingFile> file = *PendingFile::Create(folder.Path("a"));
  ASSERT_TRUE(file->Append("newer").ok());
  EXPECT_EQ(folder.Read("a"), "older");
  ASSERT_TRUE(PendingFile::Publish({file.get()}).ok());
  EXPECT_EQ(folder.Read("a"), "newer");
}

TEST(PendingFileTest, LeavesNoTraceWithoutPublish) {
  const ScratchFolder folder;
  { ASSERT_TRUE((*PendingFile::Create(folder.Path("a")))->Append("text").ok()); }
  EXPECT_THAT(folder.Names(), IsEmpty());
}

TEST(PendingFileTest, FailsWhereTheFolderDoesNotExist) {
  const ScratchFolder folder;
  EXPECT_EQ(PendingFile::Create(folder.Path("absent/a")).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(PendingFileTest, ReplacesWhatAKilledProcessOfTheSameNumberLeft) {
  const ScratchFolder folder;
  const std::string left = folder.Path(absl::StrCat("a.", getpid(), ".partial"));
  std::ofstream(left) << "half a row";
  std::unique_ptr<PendingFile> file = *PendingFile::Create(folder.Path("a"));
  std::error_code absent;
  EXPECT_NE(std::filesystem::file_size(left, absent), std::string("half a row").size());
}

TEST(PendingFileTest, IsGoneWithAProcessThatIsKilled) {
  const ScratchFolder folder;
  const pid_t child = fork();
  if (child == 0) {
    const absl::StatusOr<std::unique_ptr<PendingFile>> file = PendingFile::Create(folder.Path("a"));
    if (file.ok() && (*file)->Append(std::string(1 << 20, 'x')).ok()) {
      raise(SIGKILL);
    }
    _exit(1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_THAT(folder.Names(), IsEmpty());
}

TEST(PendingFileTest, ANewOneTakesNobodysName) {
  const ScratchFolder folder;
  const std::unique_ptr<PendingFile> first = *PendingFile::Create(folder.Path("a"));
  const std::unique_ptr<PendingFile> second = *PendingFile::Create(folder.Path("a"));
  ASSERT_TRUE(first->Append("first").ok());
  ASSERT_TRUE(second->Append("second").ok());
  EXPECT_TRUE(first->PublishNew().ok());
  EXPECT_EQ(second->PublishNew().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(second->PublishNew().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(folder.Names(), ElementsAre("a"));
  EXPECT_EQ(folder.Read("a"), "first");
}

TEST(PendingFileTest, IsItsOwnersAloneUnlessSaidOtherwise) {
  const ScratchFolder folder;
  const mode_t umask_before = umask(0);
  std::unique_ptr<PendingFile> own = *PendingFile::Create(folder.Path("own"));
  std::unique_ptr<PendingFile> open = *PendingFile::Create(folder.Path("open"), 0644);
  ASSERT_TRUE(PendingFile::Publish({own.get(), open.get()}).ok());
  umask(umask_before);
  EXPECT_EQ(std::filesystem::status(folder.Path("own")).permissions(), std::filesystem::perms(0600));
  EXPECT_EQ(std::filesystem::status(folder.Path("open")).permissions(), std::filesystem::perms(0644));
}

TEST(PendingFileTest, ReplacesSeveralOlderFilesAndLeavesNothingBeside) {
  const ScratchFolder folder;
  folder.Write("a", "older");
  folder.Write("b", "older");
  std::unique_ptr<PendingFile> first = *PendingFile::Create(folder.Path("a"));
  std::unique_ptr<PendingFile> second = *PendingFile::Create(folder.Path("b"));
  ASSERT_TRUE(first->Append("newer").ok());
  ASSERT_TRUE(second->Append("newer").ok());
  ASSERT_TRUE(PendingFile::Publish({first.get(), second.get()}).ok());
  EXPECT_THAT(folder.Names(), UnorderedElementsAre("a", "b"));
  EXPECT_EQ(folder.Read("a"), "newer");
  EXPECT_EQ(folder.Read("b"), "newer");
}

TEST(PendingFileTest, PutsTheOlderFilesBackWhenALaterNameCannotBeGiven) {
  const ScratchFolder folder;
  folder.Write("a", "older");
  std::vector<std::unique_ptr<PendingFile>> files;
  for (const char* name : {"a", "b", "c", "d"}) {  // Nothing had the name b before.
    files.push_back(*PendingFile::Create(folder.Path(name)));
    ASSERT_TRUE(files.back()->Append("newer").ok());
  }
  std::filesystem::create_directory(folder.Path("c"));  // A file cannot replace a folder.
  folder.Write("d", "older");
  EXPECT_EQ(PendingFile::Publish({files[0].get(), files[1].get(), files[2].get(), files[3].get()}).code(),
            absl::StatusCode::kInternal);
  files.clear();
  EXPECT_THAT(folder.Names(), UnorderedElementsAre("a", "c", "d"));
  EXPECT_EQ(folder.Read("a"), "older");
  EXPECT_EQ(folder.Read("d"), "older");
}

TEST(PendingFileTest, RemovesThePublishedOnesWhenALaterNameCannotBeGiven) {
  const ScratchFolder folder;
  std::unique_ptr<PendingFile> first = *PendingFile::Create(folder.Path("a"));
  std::unique_ptr<PendingFile> second = *PendingFile::Create(folder.Path("b"));
  std::filesystem::create_directory(folder.Path("b"));  // A file cannot replace a folder.
  EXPECT_EQ(PendingFile::Publish({first.get(), second.get()}).code(), absl::StatusCode::kInvalidArgument);
  first.reset();
  second.reset();
  EXPECT_THAT(folder.Names(), ElementsAre("b"));
}

TEST(PendingFileTest, FailsToAppendOrPublishOncePublished) {
  const ScratchFolder folder;
  std::unique_ptr<PendingFile> file = *PendingFile::Create(folder.Path("a"));
  ASSERT_TRUE(PendingFile::Publish({file.get()}).ok());
  EXPECT_EQ(file->Append("more").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(PendingFile::Publish({file.get()}).code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace splitveil
