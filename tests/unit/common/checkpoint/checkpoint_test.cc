#include "common/checkpoint/checkpoint.h"

#include <sys/stat.h>

#include <cmath>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <string>
#include <utility>

#include "common/process/file.h"
#include "common/process/runtime.h"
#include "tests/testing/process/temp_folder.h"

namespace splitveil::testing {
namespace {

using ::testing::HasSubstr;

v1::CheckpointHeader Header() {
  v1::CheckpointHeader header;
  header.set_role("label_party");
  header.set_run_id("demo-1234abcd");
  header.set_epochs(3);
  header.mutable_label_party()->set_cumulative_sum_kl(std::numeric_limits<double>::infinity());
  return header;
}

NamedParameters State() {
  return {{"first.weight", {1.5f, -0.0f, 1e-42f}}, {"first.bias", {}}, {"embedding", std::vector<float>(1000, 0.25f)}};
}

class CheckpointTest : public ::testing::Test {
 protected:
  // A section file that Checkpoint::Write did not make.
  void WriteSections(const std::string& header, const std::string& values) {
    std::unique_ptr<SectionFileWriter> writer =
        *SectionFileWriter::Create(path_, {"header", "progress", "state/first.weight"});
    ASSERT_TRUE(writer->Append(0, header).ok());
    ASSERT_TRUE(writer->Append(2, values).ok());
    ASSERT_TRUE(writer->Publish().ok());
  }

  void ExpectRefused(const std::string& text) {
    const absl::Status status = Checkpoint::Open(path_).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
    EXPECT_THAT(std::string(status.message()), HasSubstr(path_));
  }

  const TempFolder folder_;
  const std::string path_ = folder_.File("half.checkpoint");
};

TEST_F(CheckpointTest, GivesBackWhatWasWrittenToTheLastBit) {
  ASSERT_TRUE(Checkpoint::Write(path_, Header(), State(), "gathered").ok());
  const absl::StatusOr<std::unique_ptr<Checkpoint>> read = Checkpoint::Open(path_);
  ASSERT_TRUE(read.ok()) << read.status();
  const absl::StatusOr<NamedParameters> state = (*read)->State();
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(*state, State());
  EXPECT_TRUE(std::signbit((*state)[0].second[1]));
  EXPECT_EQ((*read)->name(), "demo-1234abcd/3");
  EXPECT_EQ((*read)->progress(), "gathered");
  EXPECT_EQ((*read)->header().version(), Version());
  EXPECT_EQ((*read)->header().label_party().cumulative_sum_kl(), std::numeric_limits<double>::infinity());
}

TEST_F(CheckpointTest, IsReadableByItsOwnerAlone) {
  ASSERT_TRUE(Checkpoint::Write(path_, Header(), State(), "gathered").ok());
  struct stat facts = {};
  ASSERT_EQ(stat(path_.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600);
}

TEST_F(CheckpointTest, StaysReadableWhileItIsReplaced) {
  ASSERT_TRUE(Checkpoint::Write(path_, Header(), State(), "gathered").ok());
  const std::unique_ptr<Checkpoint> before = *Checkpoint::Open(path_);
  v1::CheckpointHeader next = Header();
  next.set_epochs(4);
  ASSERT_TRUE(Checkpoint::Write(path_, next, {{"first.weight", {9.0f}}}, "gathered").ok());
  EXPECT_EQ(*before->State(), State());
  EXPECT_EQ((*Checkpoint::Open(path_))->name(), "demo-1234abcd/4");
}

TEST_F(CheckpointTest, WriteFailsWhereThereIsNoFolder) {
  EXPECT_EQ(Checkpoint::Write(folder_.File("none/half"), Header(), State(), "gathered").code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(CheckpointTest, OpenFailsWhereThereIsNone) {
  EXPECT_EQ(Checkpoint::Open(path_).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(CheckpointTest, EveryDamagedByteIsFound) {
  ASSERT_TRUE(Checkpoint::Write(path_, Header(), {{"first.weight", {1, 2, 3}}}, "gathered").ok());
  const std::string whole = *ReadFile(path_);
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    std::ofstream(path_, std::ios::binary) << damaged;
    EXPECT_EQ(Checkpoint::Open(path_).status().code(), absl::StatusCode::kInvalidArgument) << "byte " << at;
  }
}

TEST_F(CheckpointTest, AFileCutShortIsFound) {
  ASSERT_TRUE(Checkpoint::Write(path_, Header(), State(), "gathered").ok());
  const std::string whole = *ReadFile(path_);
  for (size_t size : {size_t{0}, size_t{7}, size_t{64}, whole.size() / 2, whole.size() - 1}) {
    ASSERT_TRUE(WriteFile(path_, whole.substr(0, size)).ok());
    EXPECT_EQ(Checkpoint::Open(path_).status().code(), absl::StatusCode::kInvalidArgument) << size << " bytes";
  }
}

TEST_F(CheckpointTest, AnotherSectionFileIsRefused) {
  std::unique_ptr<SectionFileWriter> writer = *SectionFileWriter::Create(path_, {"rows"});
  ASSERT_TRUE(writer->Publish().ok());
  ExpectRefused("expected a checkpoint of a party, found a file without its header");
}

TEST_F(CheckpointTest, AHeaderThatIsNoneIsRefused) {
  WriteSections("\xff\xff\xff", "");
  ExpectRefused("found a file without its header");
}

TEST_F(CheckpointTest, AHeaderWithoutARunIsRefused) {
  v1::CheckpointHeader header = Header();
  header.clear_run_id();
  WriteSections(header.SerializeAsString(), "");
  ExpectRefused("found a header without a run");
}

TEST_F(CheckpointTest, AHeaderThatPromisesOtherSizesIsRefused) {
  v1::CheckpointHeader header = Header();
  header.add_sections()->set_name("first.weight");
  for (uint64_t values : {uint64_t{1}, uint64_t{3}, uint64_t{1} << 62}) {  // The last times 4 is 0 in 64 bits.
    header.mutable_sections(0)->set_values(values);
    WriteSections(header.SerializeAsString(), std::string(8, '\0'));
    ExpectRefused("another size than its header says");
  }
  header.mutable_sections(0)->set_values(2);
  WriteSections(header.SerializeAsString(), std::string(9, '\0'));
  ExpectRefused("another size than its header says");
}

TEST_F(CheckpointTest, AHeaderThatPromisesASectionThatIsNotThereIsRefused) {
  v1::CheckpointHeader header = Header();
  header.add_sections()->set_name("second.weight");
  WriteSections(header.SerializeAsString(), "");
  ExpectRefused("second.weight");
}

TEST_F(CheckpointTest, AValueThatIsNotFiniteIsRefused) {
  for (float value : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    // Not written in place of one that can be read.
    ASSERT_TRUE(Checkpoint::Write(path_, Header(), {{"first.weight", {1, 2}}}, "gathered").ok());
    const absl::Status refused = Checkpoint::Write(path_, Header(), {{"first.weight", {1, value}}}, "gathered");
    EXPECT_EQ(refused.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(refused.message()), HasSubstr("finite numbers in first.weight: the training has diverged"));
    EXPECT_TRUE((*Checkpoint::Open(path_))->State().ok());
    // Nor read where an earlier version has written one.
    v1::CheckpointHeader header = Header();
    header.add_sections()->set_name("first.weight");
    header.mutable_sections(0)->set_values(1);
    WriteSections(header.SerializeAsString(), std::string(reinterpret_cast<const char*>(&value), sizeof(value)));
    const absl::Status status = (*Checkpoint::Open(path_))->State().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("not finite in first.weight"));
  }
}

}  // namespace
}  // namespace splitveil::testing
