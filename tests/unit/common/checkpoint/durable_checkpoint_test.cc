// In which order a checkpoint comes onto the disk, so that a power cut leaves one that is whole.
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "common/checkpoint/checkpoint_plan.h"
#include "tests/testing/process/temp_folder.h"

namespace {

std::vector<std::string> did;
bool sync_fails = false;

std::string NameOf(const char* path) { return std::filesystem::path(path).filename().string(); }

}  // namespace

// In place of the library's, for the whole process.
extern "C" {

// NOLINTNEXTLINE(readability-identifier-naming): POSIX's.
int fsync(int descriptor) {
  struct stat facts = {};
  fstat(descriptor, &facts);
  did.emplace_back(S_ISDIR(facts.st_mode) ? "sync folder" : "sync file");
  errno = EIO;
  return sync_fails ? -1 : static_cast<int>(syscall(SYS_fsync, descriptor));
}

// NOLINTNEXTLINE(readability-identifier-naming): POSIX's.
int rename(const char* from, const char* to) {
  // The temporary's name has the process's number.
  did.push_back(NameOf(to) == "half.new" ? "name half.new" : NameOf(from) + " to " + NameOf(to));
  return static_cast<int>(syscall(SYS_rename, from, to));
}

}  // extern "C"

namespace splitveil::testing {
namespace {

class DurableCheckpointTest : public ::testing::Test {
 protected:
  DurableCheckpointTest() {
    plan_.path = folder_.File("half");
    EXPECT_TRUE(Write(1).ok());
    did.clear();
  }
  absl::Status Write(uint32_t epochs) const {
    v1::CheckpointHeader place;
    place.set_run_id("run");
    place.set_epochs(epochs);
    return plan_.Write(place, {{"bias", {1}}}, "");
  }

  const TempFolder folder_;
  CheckpointPlan plan_;
};

TEST_F(DurableCheckpointTest, ItsBytesThenItsNameThenTheFolder) {
  ASSERT_TRUE(Write(2).ok());
  EXPECT_THAT(did, ::testing::ElementsAre("sync file", "name half.new", "sync folder", "half.1 to half.2",
                                          "half to half.1", "half.new to half", "sync folder"));
}

TEST_F(DurableCheckpointTest, WhereTheDiskTakesNothingTheOneBeforeStands) {
  sync_fails = true;
  const absl::Status status = Write(2);
  sync_fails = false;
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(did, ::testing::ElementsAre("sync file"));
  EXPECT_EQ((*Checkpoint::Open(plan_.path))->header().epochs(), 1);
}

}  // namespace
}  // namespace splitveil::testing
