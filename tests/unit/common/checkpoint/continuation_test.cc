// What an interrupted run may resume from, and what restarts.
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <string>

#include "common/checkpoint/checkpoint_plan.h"
#include "common/crypto/sha256.h"
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
    continuation_.seed = Sha256("seed");
    continuation_.aligned = {{3, 0, 2}, Sha256("order"), 17};
    header_.set_run_id("run-1");
    header_.set_epochs(2);
    header_.set_batches(7);
    header_.set_dataset_sha256(std::string(AsBytes(data_->digest())));
    *header_.mutable_continuation() = ToProto(continuation_, agreement_);
  }

  absl::StatusOr<std::optional<Continuation>> Continued() const {
    const std::string path = files_.File("checkpoint");
    EXPECT_TRUE(Checkpoint::Write(path, header_, {{"first.bias", {1}}}, "").ok());
    return ContinuationOf(**Checkpoint::Open(path), agreement_, *data_);
  }

  const TempFolder files_;
  std::shared_ptr<const Dataset> data_;
  v1::RunAgreement agreement_;
  v1::CheckpointHeader header_;
  Continuation continuation_;
};

TEST_F(ContinuationTest, IsReadAsItWasWritten) {
  const auto found = Continued();
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_TRUE(found->has_value());
  EXPECT_EQ((*found)->seed, continuation_.seed);
  EXPECT_EQ((*found)->aligned.rows, continuation_.aligned.rows);
  EXPECT_EQ((*found)->aligned.order_sha256, continuation_.aligned.order_sha256);
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
        *header_.mutable_continuation() = ToProto(continuation_, agreement_);
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
      [](auto& proto) { proto.set_joint_seed("short"); }, [](auto& proto) { proto.set_order_sha256(""); },
      [](auto& proto) { proto.set_aligned_rows(1, 4); },  // There are four.
      [](auto& proto) { proto.set_aligned_rows(1, 3); },  // Twice.
  };
  for (const auto& change : changes) {
    header_ = header;
    change(*header_.mutable_continuation());
    const absl::Status status = Continued().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("checkpoint: continuation: expected digests and rows"));
  }
}

}  // namespace
}  // namespace splitveil::testing
