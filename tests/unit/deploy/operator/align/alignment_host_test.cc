#include "deploy/operator/align/alignment_host.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <thread>
#include <vector>

#include "common/config/agreement.h"
#include "tests/testing/alignment_channel_pair.h"
#include "tests/testing/small_table.h"

namespace splitveil {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class AlignmentHostTest : public ::testing::Test {
 protected:
  AlignmentHostTest() {
    label_.agreement.set_run_name("shared");
    label_.agreement.set_cut_width(1);
    Canonicalize(label_.agreement);
    nonlabel_.agreement = label_.agreement;
    label_.data = Table({"a", "b", "c"});
    nonlabel_.data = Table({"c", "x", "b", "y"});
  }

  static std::shared_ptr<const Dataset> Table(const std::vector<std::string>& ids) {
    testing::SmallTable table;
    table.ids = ids;
    return table.Store();
  }

  v1::OpenRequest Request() const {
    v1::OpenRequest request;
    *request.mutable_agreement() = nonlabel_.agreement;
    request.set_agreement_sha256(std::string(AsBytes(AgreementSha256(nonlabel_.agreement))));
    return request;
  }

  static void ExpectRefused(const absl::Status& status, const std::string& text) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  }

  AlignmentSide label_, nonlabel_;
  RunStatus status_{"label_party"}, peer_status_{"nonlabel_party"};
  AlignmentChannelPair channels_{4};
};

TEST_F(AlignmentHostTest, AlignsWithAPeerAndCountsWhatBothSent) {
  AlignmentHost host(&label_, &status_);
  const absl::StatusOr<v1::OpenResponse> opened = host.Open(Request());
  ASSERT_TRUE(opened.ok()) << opened.status();
  absl::Status served;
  std::thread server([&] { served = host.Align(*channels_.first); });
  int heard = 0;
  const absl::StatusOr<FinishedAlignment> theirs = AlignCounted(
      nonlabel_, opened->run_id(), &peer_status_, [&heard] { ++heard; }, *channels_.second);
  server.join();
  ASSERT_TRUE(theirs.ok()) << theirs.status();
  EXPECT_TRUE(served.ok()) << served;
  EXPECT_GT(heard, 0);
  const absl::StatusOr<FinishedAlignment> ours = host.WaitUntilEnded();
  ASSERT_TRUE(ours.ok()) << ours.status();
  EXPECT_EQ(ours->aligned.rows.size(), 2);
  EXPECT_EQ(ours->aligned.order_sha256, theirs->aligned.order_sha256);
  EXPECT_EQ(ours->aligned.peer_ids, 4);
  EXPECT_EQ(ours->bytes_sent, theirs->bytes_received);
  EXPECT_EQ(ours->bytes_received, theirs->bytes_sent);
  EXPECT_GE(ours->bytes_sent, (3 + 4) * 32);  // Its own points, and the peer's again.
  std::vector<uint32_t> rows = ours->aligned.rows;
  std::sort(rows.begin(), rows.end());
  EXPECT_THAT(rows, ElementsAre(1, 2));
}

TEST_F(AlignmentHostTest, RefusesADifferentAgreementAndEnds) {
  AlignmentHost host(&label_, &status_);
  nonlabel_.agreement.mutable_alignment()->set_chunk_ids(3);
  ExpectRefused(host.Open(Request()).status(), "agreement: the parties differ: alignment.chunk_ids");
  ExpectRefused(host.WaitUntilEnded().status(), "chunk_ids");
}

TEST_F(AlignmentHostTest, RefusesADigestThatDoesNotFit) {
  AlignmentHost host(&label_, &status_);
  v1::OpenRequest request = Request();
  request.set_agreement_sha256("other");
  ExpectRefused(host.Open(request).status(), "digest");
}

TEST_F(AlignmentHostTest, RefusesAPeerThatWantsToTrainAndEnds) {
  AlignmentHost host(&label_, &status_);
  v1::OpenRequest request = Request();
  request.set_seed_commitment(std::string(32, 'x'));
  ExpectRefused(host.Open(request).status(), "found one that wants to train");
  ExpectRefused(host.WaitUntilEnded().status(), "found one that wants to train");
}

TEST_F(AlignmentHostTest, RefusesEveryMessageOutOfTurn) {
  AlignmentHost host(&label_, &status_);
  ExpectRefused(host.Align(*channels_.first), "Align is allowed once, directly after Open");
  ASSERT_TRUE(host.Open(Request()).ok());
  ExpectRefused(host.Open(Request()).status(), "one alignment has started already");
  channels_.second->Close();
  EXPECT_FALSE(host.Align(*channels_.first).ok());  // The peer is gone; there is no second attempt.
  ExpectRefused(host.Align(*channels_.first), "Align is allowed once");
  EXPECT_FALSE(host.WaitUntilEnded().ok());
}

TEST_F(AlignmentHostTest, GivesUpASilentPeerBeforeAndAfterOpen) {
  label_.agreement.mutable_deadlines()->set_connect_seconds(0.1);
  label_.agreement.mutable_deadlines()->set_alignment_chunk_seconds(0.1);
  nonlabel_.agreement = label_.agreement;
  for (const bool opened : {false, true}) {
    AlignmentHost host(&label_, &status_);
    if (opened) {
      ASSERT_TRUE(host.Open(Request()).ok());
    }
    const absl::Status status = host.WaitUntilEnded().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    ExpectRefused(host.Align(*channels_.first), "Align is allowed once");
  }
}

}  // namespace
}  // namespace splitveil
