#include "deploy/operator/align/alignment_host.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <thread>
#include <vector>

#include "common/config/agreement.h"
#include "common/process/exit_code.h"
#include "tests/testing/alignment_channel_pair.h"
#include "tests/testing/process/temp_folder.h"

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
    label_.ids = label_ids_;
    nonlabel_.ids = nonlabel_ids_;
    label_.party.set_ledger_path(folder_.File("ledger.db"));
    label_.attempt.program = "align";
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

  const testing::TempFolder folder_;
  const std::vector<std::string> label_ids_ = {"a", "b", "c"}, nonlabel_ids_ = {"c", "x", "b", "y"};
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
  EXPECT_EQ(ours->aligned.bytes_sent, theirs->aligned.bytes_received);
  EXPECT_EQ(ours->aligned.bytes_received, theirs->aligned.bytes_sent);
  EXPECT_GE(ours->aligned.bytes_sent, (3 + 4) * 32);  // Its own points, and the peer's again.
  std::vector<uint32_t> rows = ours->aligned.rows;
  std::sort(rows.begin(), rows.end());
  EXPECT_THAT(rows, ElementsAre(1, 2));
}

// Each attempt lets the peer try a list of ids, so the last that the ledger allows must not be followed by another.
TEST_F(AlignmentHostTest, SendsNothingOnceTheLedgerCountsAllAllowedAlignments) {
  label_.party.set_max_alignments(1);
  ASSERT_TRUE(CountAttempt(label_, "earlier-00000000").ok());
  AlignmentHost host(&label_, &status_);
  ASSERT_TRUE(host.Open(Request()).ok());
  const absl::Status refused = host.Align(*channels_.first);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("already counts 1 of at most 1 (party.max_alignments)"));
  EXPECT_EQ(ExitCodeFor(host.WaitUntilEnded().status()), ExitCode::kRefused);
  EXPECT_EQ(*CountAlignments(label_.party.ledger_path()), 1);
}

TEST_F(AlignmentHostTest, AlignsWithNobodyIfTheAttemptCannotBeCounted) {
  label_.party.set_ledger_path(folder_.File("absent/ledger.db"));
  AlignmentHost host(&label_, &status_);
  ASSERT_TRUE(host.Open(Request()).ok());
  EXPECT_EQ(host.Align(*channels_.first).message(), "the label party failed; its own log says why");
  EXPECT_THAT(std::string(host.WaitUntilEnded().status().message()), HasSubstr("absent"));
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
