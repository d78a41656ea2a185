#include "common/alignment/peer_inbox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <thread>

#include "tests/unit/common/alignment/points_for_test.h"

namespace splitveil {
namespace {

using State = PeerInbox::State;
using Message = v1::AlignmentMessage;
using testing::DoubleMaskedMessage;
using testing::MaskedMessage;
using testing::SetSizeMessage;
using testing::SomePoints;

constexpr char kRun[] = "run";
constexpr uint64_t kOwnIds = 2;
constexpr uint64_t kPeerIds = 3;

PeerInbox::Limits TestLimits() { return {kRun, kOwnIds, /*max_ids=*/10, /*chunk_ids=*/4, /*threads=*/2}; }

// An inbox that legal messages have brought into `state`.
std::unique_ptr<PeerInbox> InboxIn(State state) {
  auto inbox = std::make_unique<PeerInbox>(TestLimits());
  if (state == State::kFailed) {
    inbox->Fail(absl::UnavailableError("gone"));
    return inbox;
  }
  if (state > State::kSetSize) {
    EXPECT_TRUE(inbox->Accept(SetSizeMessage(kRun, kPeerIds)).ok());
  }
  if (state > State::kMasked) {
    EXPECT_TRUE(inbox->Accept(MaskedMessage(kRun, 0, SomePoints(kPeerIds))).ok());
    inbox->NoteSent(kOwnIds);
  }
  if (state > State::kDoubleMasked) {
    EXPECT_TRUE(inbox->Accept(DoubleMaskedMessage(kRun, 0, SomePoints(kOwnIds))).ok());
  }
  EXPECT_EQ(inbox->state(), state);
  return inbox;
}

void ExpectFails(PeerInbox& inbox, const Message& message, absl::StatusCode code) {
  const absl::Status status = inbox.Accept(message);
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_EQ(inbox.state(), State::kFailed);
  EXPECT_FALSE(inbox.failure().ok());
}

TEST(PeerInboxTest, KeepsThePeersOrderAcrossChunks) {
  PeerInbox inbox(TestLimits());
  const std::vector<Point> points = SomePoints(3);
  ASSERT_TRUE(inbox.Accept(SetSizeMessage(kRun, 3)).ok());
  EXPECT_EQ(*inbox.WaitForSetSize(), 3);
  ASSERT_TRUE(inbox.Accept(MaskedMessage(kRun, 0, {points[0]})).ok());
  EXPECT_THAT(*inbox.TakeMasked(10), ::testing::ElementsAre(points[0]));
  ASSERT_TRUE(inbox.Accept(MaskedMessage(kRun, 1, {points[1], points[2]})).ok());
  EXPECT_THAT(*inbox.TakeMasked(1), ::testing::ElementsAre(points[1]));
  EXPECT_THAT(*inbox.TakeMasked(1), ::testing::ElementsAre(points[2]));
  EXPECT_THAT(*inbox.TakeMasked(1), ::testing::IsEmpty());
}

TEST(PeerInboxTest, GivesTheAnswersInOurOrder) {
  const std::unique_ptr<PeerInbox> inbox = InboxIn(State::kDoubleMasked);
  const std::vector<Point> points = SomePoints(2);
  ASSERT_TRUE(inbox->Accept(DoubleMaskedMessage(kRun, 0, {points[1]})).ok());
  EXPECT_EQ(inbox->state(), State::kDoubleMasked);
  ASSERT_TRUE(inbox->Accept(DoubleMaskedMessage(kRun, 1, {points[0]})).ok());
  EXPECT_EQ(inbox->state(), State::kComplete);
  EXPECT_THAT(*inbox->TakeDoubleMasked(), ::testing::ElementsAre(points[1], points[0]));
}

TEST(PeerInboxTest, WaitingThreadIsWokenByTheMessage) {
  PeerInbox inbox(TestLimits());
  std::thread peer([&] { EXPECT_TRUE(inbox.Accept(SetSizeMessage(kRun, 7)).ok()); });
  EXPECT_EQ(*inbox.WaitForSetSize(), 7);
  peer.join();
}

TEST(PeerInboxTest, FailureWakesEveryWaitAndTheFirstReasonStays) {
  for (const State state : {State::kSetSize, State::kMasked, State::kDoubleMasked}) {
    const std::unique_ptr<PeerInbox> inbox = InboxIn(state);
    std::thread peer([&] {
      inbox->Fail(absl::UnavailableError("first"));
      inbox->Fail(absl::InternalError("second"));
    });
    EXPECT_EQ(inbox->TakeDoubleMasked().status(), absl::UnavailableError("first"));
    EXPECT_EQ(inbox->WaitForSetSize().status(), absl::UnavailableError("first"));
    EXPECT_EQ(inbox->TakeMasked(1).status(), absl::UnavailableError("first"));
    peer.join();
    EXPECT_EQ(inbox->failure(), absl::UnavailableError("first"));
  }
}

TEST(PeerInboxTest, LossOfThePeerAfterTheLastMessageIsNoFailure) {
  const std::unique_ptr<PeerInbox> inbox = InboxIn(State::kComplete);
  inbox->Fail(absl::UnavailableError("gone"));
  EXPECT_TRUE(inbox->failure().ok());
  EXPECT_TRUE(inbox->TakeDoubleMasked().ok());
}

TEST(PeerInboxTest, RefusesEveryMessageKindOutOfTurn) {
  const Message set_size = SetSizeMessage(kRun, kPeerIds);
  const Message masked = MaskedMessage(kRun, 0, SomePoints(1));
  const Message double_masked = DoubleMaskedMessage(kRun, 0, SomePoints(1));
  const auto refused = [](State state, const Message& message) {
    ExpectFails(*InboxIn(state), message, absl::StatusCode::kFailedPrecondition);
  };
  refused(State::kSetSize, masked);
  refused(State::kSetSize, double_masked);
  refused(State::kMasked, set_size);
  refused(State::kMasked, double_masked);
  refused(State::kDoubleMasked, set_size);
  refused(State::kDoubleMasked, masked);
  refused(State::kComplete, set_size);
  refused(State::kComplete, masked);
  refused(State::kComplete, double_masked);
}

TEST(PeerInboxTest, AFailedInboxRepeatsItsReasonToLegalMessages) {
  for (const Message& message : {SetSizeMessage(kRun, kPeerIds), MaskedMessage(kRun, 0, SomePoints(1)),
                                 DoubleMaskedMessage(kRun, 0, SomePoints(1))}) {
    ExpectFails(*InboxIn(State::kFailed), message, absl::StatusCode::kUnavailable);
  }
}

TEST(PeerInboxTest, RefusesAMessageWithoutContentInEveryState) {
  Message empty;
  empty.set_run_id(kRun);
  for (const State state : {State::kSetSize, State::kMasked, State::kDoubleMasked, State::kComplete, State::kFailed}) {
    ExpectFails(*InboxIn(state), empty, absl::StatusCode::kInvalidArgument);
  }
}

TEST(PeerInboxTest, RefusesAnotherRun) {
  for (const char* run : {"", "ru", "run2"}) {
    ExpectFails(*InboxIn(State::kSetSize), SetSizeMessage(run, kPeerIds), absl::StatusCode::kFailedPrecondition);
    ExpectFails(*InboxIn(State::kMasked), MaskedMessage(run, 0, SomePoints(1)), absl::StatusCode::kFailedPrecondition);
  }
}

TEST(PeerInboxTest, RefusesSetSizesOutOfRange) {
  for (const uint64_t ids : {uint64_t{0}, uint64_t{11}, ~uint64_t{0}}) {
    ExpectFails(*InboxIn(State::kSetSize), SetSizeMessage(kRun, ids), absl::StatusCode::kInvalidArgument);
  }
}

TEST(PeerInboxTest, RefusesBytesThatAreNoWholeNumberOfPoints) {
  for (const size_t length : {0, 1, 31, 33, 63}) {
    Message message = MaskedMessage(kRun, 0, SomePoints(2));
    message.mutable_masked()->mutable_points()->resize(length);
    ExpectFails(*InboxIn(State::kMasked), message, absl::StatusCode::kInvalidArgument);
  }
}

TEST(PeerInboxTest, RefusesChunksAboveTheLimit) {
  PeerInbox inbox(TestLimits());
  ASSERT_TRUE(inbox.Accept(SetSizeMessage(kRun, 10)).ok());
  ExpectFails(inbox, MaskedMessage(kRun, 0, SomePoints(5)), absl::StatusCode::kInvalidArgument);
}

TEST(PeerInboxTest, RefusesIndicesThatDoNotContinue) {
  for (const uint64_t first_index : {uint64_t{0}, uint64_t{2}, ~uint64_t{0}}) {
    PeerInbox inbox(TestLimits());
    ASSERT_TRUE(inbox.Accept(SetSizeMessage(kRun, 3)).ok());
    ASSERT_TRUE(inbox.Accept(MaskedMessage(kRun, 0, SomePoints(1))).ok());
    ExpectFails(inbox, MaskedMessage(kRun, first_index, SomePoints(1)), absl::StatusCode::kInvalidArgument);
  }
}

TEST(PeerInboxTest, RefusesMorePointsThanAnnounced) {
  ExpectFails(*InboxIn(State::kMasked), MaskedMessage(kRun, 0, SomePoints(kPeerIds + 1)),
              absl::StatusCode::kInvalidArgument);
}

TEST(PeerInboxTest, RefusesMoreAnswersThanOwed) {
  ExpectFails(*InboxIn(State::kDoubleMasked), DoubleMaskedMessage(kRun, 0, SomePoints(kOwnIds + 1)),
              absl::StatusCode::kInvalidArgument);
}

TEST(PeerInboxTest, RefusesAnswersToWhatWasNotSent) {
  PeerInbox inbox(TestLimits());
  ASSERT_TRUE(inbox.Accept(SetSizeMessage(kRun, 1)).ok());
  ASSERT_TRUE(inbox.Accept(MaskedMessage(kRun, 0, SomePoints(1))).ok());
  inbox.NoteSent(1);
  ExpectFails(inbox, DoubleMaskedMessage(kRun, 0, SomePoints(2)), absl::StatusCode::kFailedPrecondition);
}

TEST(PeerInboxTest, RefusesBytesThatEncodeNoUsablePoint) {
  std::vector<Point> bad = testing::BadEncodings();
  bad.push_back(Point{});
  for (const Point& point : bad) {
    std::vector<Point> chunk = SomePoints(2);
    chunk[1] = point;
    ExpectFails(*InboxIn(State::kMasked), MaskedMessage(kRun, 0, chunk), absl::StatusCode::kInvalidArgument);
    ExpectFails(*InboxIn(State::kDoubleMasked), DoubleMaskedMessage(kRun, 0, chunk),
                absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace splitveil
