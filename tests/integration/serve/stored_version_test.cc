// What a publication leaves on the disk, however it ends.
#include "common/checkpoint/stored_version.h"

#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <numeric>

#include "absl/strings/str_cat.h"

#include "tests/testing/two_party_run.h"

namespace splitveil::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class StoredVersionTest : public ::testing::Test {
 protected:
  StoredVersionTest() {
    EXPECT_TRUE(WriteSectionFile(checkpoint_, {{"state", "weights"}}).ok());
    std::iota(rows_.rbegin(), rows_.rend(), 0);
    std::iota(activations_.data(), activations_.data() + activations_.size(), 0.0F);
  }

  absl::StatusOr<std::unique_ptr<VersionWriter>> Create() const {
    v1::VersionHeader header;
    header.set_run_id("run");
    header.set_checkpoint("run/2");
    header.set_cut_width(activations_.cols());
    return VersionWriter::Create(folder_, header, checkpoint_, *data_, rows_);
  }
  // All of it, or its first half.
  void Write(VersionWriter& writer, bool half = false) const {
    EXPECT_TRUE(writer.Append(activations_.block(0, 30)).ok());
    if (!half) {
      EXPECT_TRUE(writer.Append(activations_.block(30, 20)).ok());
    }
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }

  const TwoPartyRun run_{300};
  const std::string folder_ = run_.files.File("a/versions"), checkpoint_ = run_.files.File("checkpoint");
  const std::shared_ptr<const Dataset> data_ = *Dataset::Open(run_.folder + "/label_party.data");
  std::vector<uint32_t> rows_ = std::vector<uint32_t>(50);
  Matrix activations_{50, 4};
};

TEST_F(StoredVersionTest, ComesBackAsItWasWritten) {
  EXPECT_THAT(*ListVersions(folder_), IsEmpty());
  for (int64_t number = 1; number <= 2; ++number) {
    auto writer = *Create();
    EXPECT_EQ(Create().status().code(), absl::StatusCode::kFailedPrecondition);  // One at a time.
    Write(*writer);
    ASSERT_EQ(*writer->Publish(), number);
  }
  std::filesystem::create_directory(folder_ + "/007");
  std::filesystem::create_directory(folder_ + "/notes");
  EXPECT_THAT(*ListVersions(folder_), ElementsAre(1, 2));
  std::filesystem::remove(checkpoint_);  // A version needs nothing that the run had.
  const auto version = OpenVersion(folder_, 2);
  ASSERT_TRUE(version.ok()) << version.status();
  EXPECT_EQ(version->header.checkpoint(), "run/2");
  EXPECT_EQ(version->data->digest(), data_->digest());
  EXPECT_EQ(version->rows, absl::MakeConstSpan(rows_));
  EXPECT_EQ(version->activations.values(), ConstMatrixView(activations_).values());
  EXPECT_EQ(OpenVersion(folder_, 3).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(StoredVersionTest, TheOtherPartysHalfHasNoActivationsAndIsNoVersionOfThisParty) {
  v1::VersionHeader header;
  header.set_role("nonlabel_party");
  header.set_checkpoint("run/2");
  header.set_alignment("order");
  auto writer = *VersionWriter::Create(folder_, header, checkpoint_, *data_, rows_);
  ASSERT_EQ(*writer->Publish(), 1);
  const auto half = OpenVersion(folder_, 1, "nonlabel_party");
  ASSERT_TRUE(half.ok()) << half.status();
  EXPECT_EQ(half->header.alignment(), "order");
  EXPECT_EQ(half->rows, absl::MakeConstSpan(rows_));
  EXPECT_EQ(half->activations.size(), 0);
  // Also under the other's names.
  EXPECT_FALSE(OpenVersion(folder_, 1).ok());
  for (const char* name : {".checkpoint", ".data"}) {
    std::filesystem::rename(absl::StrCat(folder_, "/1/nonlabel_party", name),
                            absl::StrCat(folder_, "/1/label_party", name));
  }
  EXPECT_EQ(OpenVersion(folder_, 1).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(StoredVersionTest, KeepsTheScoresOfTheTrainingAndTakesThoseOfTheSameCheckpoint) {
  const auto publish = [&](const v1::ScoreCounts& scores) {
    auto writer = *Create();
    Write(*writer);
    const absl::StatusOr<int64_t> number = writer->Publish(scores);
    EXPECT_TRUE(number.ok()) << number.status();
    return OpenVersion(folder_, *number)->scores.SerializeAsString();
  };
  v1::ScoreCounts scores;
  EXPECT_EQ(publish(scores), "");
  scores.add_edges(0.5);
  scores.add_counts(700);
  scores.add_counts(300);
  EXPECT_EQ(publish(scores), scores.SerializeAsString());
  EXPECT_EQ(publish({}), scores.SerializeAsString());
  ASSERT_TRUE(WriteSectionFile(checkpoint_, {{"state", "other weights"}}).ok());
  EXPECT_EQ(publish({}), "");
  scores.clear_counts();
  scores.add_counts(1000);  // Too few for their edges.
  auto writer = *Create();
  Write(*writer);
  EXPECT_EQ(OpenVersion(folder_, *writer->Publish(scores)).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(StoredVersionTest, APartOfIsNone) {
  Write(**Create(), /*half=*/true);
  EXPECT_THAT(Names(), IsEmpty());
  auto writer = *Create();
  Write(*writer, /*half=*/true);
  EXPECT_FALSE(writer->Publish().ok());
  writer.reset();
  EXPECT_THAT(Names(), IsEmpty());
  // By a process that is killed: nothing is tidied.
  const pid_t child = fork();
  if (child == 0) {
    auto begun = Create();
    if (begun.ok()) {
      (void)(*begun)->Append(activations_.block(0, 30));
    }
    _exit(begun.ok() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  EXPECT_THAT(Names(), ElementsAre(".partial"));
  EXPECT_THAT(*ListVersions(folder_), IsEmpty());
  writer = *Create();
  Write(*writer);
  EXPECT_EQ(*writer->Publish(), 1);
  EXPECT_THAT(Names(), ElementsAre("1"));
}

TEST_F(StoredVersionTest, AnotherVersionsPartsAreRefused) {
  auto writer = *Create();
  Write(*writer);
  ASSERT_TRUE(writer->Publish().ok());
  const std::string checkpoint = folder_ + "/1/label_party.checkpoint", data = folder_ + "/1/label_party.data";
  ASSERT_TRUE(WriteSectionFile(checkpoint, {{"state", "other weights"}}).ok());
  EXPECT_THAT(std::string(OpenVersion(folder_, 1).status().message()),
              HasSubstr("a different checkpoint or different data"));
  std::filesystem::copy_file(checkpoint_, checkpoint, std::filesystem::copy_options::overwrite_existing);
  ASSERT_TRUE(OpenVersion(folder_, 1).ok());
  std::filesystem::remove(data);
  std::filesystem::copy_file(run_.folder + "/nonlabel_party.data", data);
  EXPECT_THAT(std::string(OpenVersion(folder_, 1).status().message()),
              HasSubstr("a different checkpoint or different data"));
  std::filesystem::remove(data);
  EXPECT_EQ(OpenVersion(folder_, 1).status().code(), absl::StatusCode::kNotFound);
  std::filesystem::copy_file(run_.folder + "/label_party.data", data);
  ASSERT_TRUE(OpenVersion(folder_, 1).ok());
  // One byte of the activations.
  std::fstream file(folder_ + "/1/activations", std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(700);
  file.put('\x55');
  file.close();
  EXPECT_EQ(OpenVersion(folder_, 1).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace splitveil::testing
