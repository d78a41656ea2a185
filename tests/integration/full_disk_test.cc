// What a run must be able to rely on, on a disk that is full or has become read-only: one error with the path, no part
// of a file, and what was there before as it was.
#include <chrono>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "common/checkpoint/checkpoint.h"
#include "common/privacy_account/privacy_account.h"
#include "common/process/exit_code.h"
#include "common/process/file.h"
#include "label_party/storage/noise_key.h"
#include "tests/testing/process/small_disk.h"
#include "tests/testing/two_party_run.h"

namespace splitveil::testing {
namespace {

using ::testing::HasSubstr;

class FullDiskTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!disk_.mounted()) {
      GTEST_SKIP() << "this process may not mount a small file system";
    }
  }

  static absl::Status WriteCheckpoint(const std::string& path, float value) {
    v1::CheckpointHeader header;
    header.set_role("label_party");
    header.set_run_id("demo-1234abcd");
    header.set_epochs(1);
    return Checkpoint::Write(path, header, {{"first.weight", std::vector<float>(5000, value)}}, "");
  }

  void ExpectFails(const absl::Status& status, const std::string& path) const {
    EXPECT_FALSE(status.ok());
    EXPECT_NE(ExitCodeFor(status), ExitCode::kDone);
    EXPECT_THAT(std::string(status.message()), HasSubstr(path));
  }

  // Those of the disk, but for the filler.
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(disk_.File(""))) {
      if (entry.path().filename() != "filler") {
        names.push_back(entry.path().filename());
      }
    }
    return names;
  }

  const SmallDisk disk_{200};
};

TEST_F(FullDiskTest, TheLastCheckpointStaysWhereTheNextDoesNotFit) {
  const std::string path = disk_.File("label.checkpoint");
  ASSERT_TRUE(WriteCheckpoint(path, 1).ok());
  disk_.Fill();
  const absl::Status full = WriteCheckpoint(path, 2);
  ExpectFails(full, path);
  EXPECT_EQ(full.code(), absl::StatusCode::kInternal) << full;
  disk_.MakeReadOnly();
  ExpectFails(WriteCheckpoint(path, 2), path);
  EXPECT_EQ((*(*Checkpoint::Open(path))->State())[0].second[0], 1);
  EXPECT_THAT(Names(), ::testing::ElementsAre("label.checkpoint"));
}

TEST_F(FullDiskTest, NoPartOfANoiseKeyIsLeft) {
  const std::string path = disk_.File("label.checkpoint.noise_key");
  disk_.Fill();
  const absl::Status full = OpenNoiseKey(path, false).status();
  ExpectFails(full, path);
  EXPECT_EQ(full.code(), absl::StatusCode::kInternal) << full;
  EXPECT_THAT(Names(), ::testing::IsEmpty());
  std::filesystem::remove(disk_.File("filler"));
  const absl::StatusOr<SecretKey> made = OpenNoiseKey(path, false);
  ASSERT_TRUE(made.ok()) << made.status();
  disk_.MakeReadOnly();
  EXPECT_EQ(OpenNoiseKey(path, false)->bytes(), made->bytes()) << "it is read, not written";
  ExpectFails(OpenNoiseKey(disk_.File("another.noise_key"), false).status(), disk_.File("another.noise_key"));
}

// What cannot be counted does not leave: Debit comes before the release.
TEST_F(FullDiskTest, AnAccountThatCannotBeWrittenDebitsNothing) {
  const std::string path = disk_.File("labels.account.db");
  const auto debit = [](PrivacyAccount& account, int first) {
    std::vector<NoiseRow> rows;
    for (int i = first; i < first + 2000; ++i) {
      rows.push_back(NoiseRow::OfId(std::to_string(i)));
    }
    return account.Debit(rows, std::vector<int64_t>(rows.size()), {{NoiseReleases{1U << 20, 1}}}).status();
  };
  {
    const auto account = PrivacyAccount::Open({path, "clicks", 1});
    ASSERT_TRUE(account.ok()) << account.status();
    disk_.Fill();
    ExpectFails(debit(**account, 0), path);
  }
  std::filesystem::remove(disk_.File("filler"));
  disk_.MakeReadOnly();
  ExpectFails(PrivacyAccount::Open({path, "clicks", 1}).status(), path);
}

// Of either party: one line each, and the peer does not wait.
TEST_F(FullDiskTest, AnExportThatDoesNotFitEndsBothPartiesAtOnce) {
  const SmallDisk small(16);
  for (const bool at_label_party : {true, false}) {
    TwoPartyRun run(1000);
    run.label_agreement.set_epochs(1);
    run.nonlabel_agreement.set_epochs(1);
    (at_label_party ? run.label_config.mutable_party() : run.nonlabel_config.mutable_party())
        ->set_export_dir(small.File(""));
    run.StartLabelParty();
    run.StartNonLabelParty();
    const auto since = std::chrono::steady_clock::now();
    RunningProgram& full = at_label_party ? *run.label : *run.nonlabel;
    RunningProgram& other = at_label_party ? *run.nonlabel : *run.label;
    EXPECT_EQ(full.Wait(), 1) << full.Errors();
    EXPECT_THAT(full.Errors(), HasSubstr("cannot be written: No space left on device"));
    EXPECT_EQ(other.Wait(), 3) << other.Errors();
    EXPECT_THAT(other.Errors(), ::testing::Not(HasSubstr(small.File(""))));
    EXPECT_LT(std::chrono::steady_clock::now() - since, std::chrono::seconds(60));
  }
}

TEST_F(FullDiskTest, AResultKeepsItsOldContents) {
  const std::string path = disk_.File("result.json");
  ASSERT_TRUE(WriteFile(path, "old").ok());
  disk_.Fill();
  const absl::Status full = WriteFile(path, std::string(8192, 'n'));
  ExpectFails(full, path);
  EXPECT_EQ(ExitCodeFor(full), ExitCode::kInternal);
  disk_.MakeReadOnly();
  ExpectFails(WriteFile(path, "new"), path);
  EXPECT_EQ(*ReadFile(path), "old");
}

}  // namespace
}  // namespace splitveil::testing
