// What an interrupted run may resume from, and what restarts.
#include <cstdio>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <string>

#include "common/checkpoint/checkpoint_plan.h"
#include "common/checkpoint/run_files.h"
#include "common/crypto/sha256.h"
#include "common/process/file.h"
#include "tests/testing/process/temp_folder.h"
#include "tests/testing/small_table.h"

namespace splitveil::testing {
namespace {

using ::testing::HasSubstr;

class ContinuationTest : public ::testing::Test {
 protected:
  ContinuationTest() {
    SmallTable table;
    table.ids = {"a", "b", "c", "d"};
    table.numeric = {{1}, {2}, {3}, {4}};
    table.categories.resize(4);
    data_ = table.Store();
    agreement_.set_run_name("run");
    agreement_.set_cut_width(4);
    agreement_.set_epochs(5);
    header_.set_run_id("run-1");
    header_.set_epochs(2);
    header_.set_batches(7);
    header_.set_dataset_sha256(std::string(AsBytes(data_->digest())));
    plan_.path = files_.File("checkpoint");
    Keep();
  }

  void Keep() {
    ASSERT_TRUE(plan_.KeepContinuation("run-1", Sha256("seed"), aligned_, 1, agreement_).ok());
    *header_.mutable_continuation() = plan_.facts.continuation();
  }

  absl::StatusOr<std::optional<Continuation>> Continued() const {
    EXPECT_TRUE(Checkpoint::Write(plan_.path, header_, {{"first.bias", {1}}}, "").ok());
    return ContinuationOf(**Checkpoint::Open(plan_.path), agreement_, *data_);
  }
  std::string RowsPath() const { return RunFilePath(plan_.path, kAlignedRows, "run-1"); }

  const TempFolder files_;
  CheckpointPlan plan_;
  std::shared_ptr<const Dataset> data_;
  v1::RunAgreement agreement_;
  v1::CheckpointHeader header_;
  AlignedIds aligned_ = {{3, 0, 2}, Sha256("order"), 17};
};

TEST_F(ContinuationTest, IsReadAsItWasWritten) {
  const auto found = Continued();
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_TRUE(found->has_value());
  EXPECT_EQ((*found)->seed, Sha256("seed"));
  EXPECT_EQ((*found)->aligned.rows, aligned_.rows);
  EXPECT_EQ((*found)->aligned.order_sha256, aligned_.order_sha256);
  EXPECT_EQ((*found)->aligned.peer_ids, 17);
  EXPECT_EQ((*found)->epochs, 2);
  EXPECT_EQ((*found)->batches, 7);
}

TEST_F(ContinuationTest, IsNoneOfAnotherRun) {
  const v1::CheckpointHeader header = header_;
  const v1::RunAgreement agreement = agreement_;
  const std::function<void()> changes[] = {
      [this] { header_.clear_continuation(); },         // Of a version that left none.
      [this] { agreement_.set_batch_size(32); },        // Another schedule.
      [this] { agreement_.set_epochs(6); },             // Another run.
      [this] { header_.set_dataset_sha256("other"); },  // Its rows are others.
      [this] {
        agreement_.set_progressive_validation(true);
        Keep();
      },
  };
  for (const auto& change : changes) {
    header_ = header;
    agreement_ = agreement;
    change();
    const auto found = Continued();
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_FALSE(found->has_value());
  }
}

TEST_F(ContinuationTest, ThatIsMalformedIsRefused) {
  const v1::CheckpointHeader header = header_;
  header_.set_epochs(6);  // Of five.
  EXPECT_EQ(Continued().status().code(), absl::StatusCode::kInvalidArgument);
  const std::function<void(v1::Continuation&)> changes[] = {
      [](auto& proto) { proto.set_joint_seed("short"); },
      [](auto& proto) { proto.set_order_sha256(""); },
  };
  for (const auto& change : changes) {
    header_ = header;
    change(*header_.mutable_continuation());
    const absl::Status status = Continued().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("checkpoint: continuation: expected digests and rows"));
  }
  for (const uint32_t row : {4, 3}) {  // There are four; twice.
    aligned_.rows[1] = row;
    Keep();
    EXPECT_THAT(std::string(Continued().status().message()), HasSubstr("expected digests and rows")) << row;
  }
}

TEST_F(ContinuationTest, NeedsTheRowsThatItsCheckpointNames) {
  std::string bytes = *ReadFile(RowsPath());
  ASSERT_TRUE(WriteAlignedRows(RowsPath(), {0, 1, 2}).ok());
  EXPECT_THAT(std::string(Continued().status().message()), HasSubstr(RowsPath() + ": expected the aligned rows"));
  bytes[64] = static_cast<char>(bytes[64] ^ 1);
  ASSERT_TRUE(WriteFile(RowsPath(), bytes).ok());
  EXPECT_EQ(Continued().status().code(), absl::StatusCode::kInvalidArgument);
  ASSERT_EQ(std::remove(RowsPath().c_str()), 0);
  const absl::Status gone = Continued().status();
  EXPECT_EQ(gone.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(gone.message()), HasSubstr("found no file: restore the file"));
}

TEST_F(ContinuationTest, RowsStandInOneFileOfTheirOwnWhateverTheirNumber) {
  const auto written = [&](uint32_t epochs) {
    v1::CheckpointHeader place;
    place.set_run_id("run-1");
    place.set_epochs(epochs);
    EXPECT_TRUE(plan_.Write(place, {{"first.bias", {1}}}, "").ok());
    return ReadFile(plan_.path)->size();
  };
  const size_t few = written(1);
  aligned_.rows.assign(100000, 0);
  Keep();
  EXPECT_EQ(written(2), few);
  EXPECT_GT(ReadFile(RowsPath())->size(), 400000);
}

TEST_F(ContinuationTest, RowsAreRemovedWithTheLastCheckpointThatNeedsThem) {
  v1::CheckpointHeader place;
  place.set_run_id("run-1");
  ASSERT_TRUE(plan_.Write(place, {{"first.bias", {1}}}, "").ok());
  // Those of a run without a checkpoint go when the next one begins.
  const std::string other = RunFilePath(plan_.path, kAlignedRows, "run-0");
  ASSERT_TRUE(WriteAlignedRows(other, {0}).ok());
  ASSERT_TRUE(plan_.KeepContinuation("run-2", Sha256("seed"), aligned_, 1, agreement_).ok());
  EXPECT_FALSE(ReadFile(other).ok());
  EXPECT_TRUE(ReadFile(RowsPath()).ok());
  ASSERT_TRUE(plan_.MarkComplete("run-1").ok());
  EXPECT_FALSE(ReadFile(RowsPath()).ok());
  const std::string last = RunFilePath(plan_.path, kAlignedRows, "run-2");
  EXPECT_TRUE(ReadFile(last).ok());
  plan_.facts.clear_continuation();  // As at the end of a run.
  place.set_run_id("run-2");
  ASSERT_TRUE(plan_.Write(place, {{"first.bias", {1}}}, "").ok());
  EXPECT_FALSE(ReadFile(last).ok());
}

}  // namespace
}  // namespace splitveil::testing
