#include "common/alignment/peer_inbox.h"

#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <thread>
#include <utility>

#include "common/crypto/sha256.h"
#include "tests/unit/common/alignment/points_for_test.h"
#include "tests/unit/common/alignment/scripted_peer.h"

namespace splitveil {
namespace {

using State = PeerInbox::State;
using Message = v1::AlignmentMessage;
using testing::CommitmentOf;
using testing::Committed;
using testing::DoubleMaskedMessage;
using testing::MaskedMessage;
using testing::SetSizeMessage;
using testing::SomePoints;

constexpr char kRun[] = "run";
constexpr uint64_t kOwnIds = 2;
constexpr uint64_t kPeerIds = 3;
constexpr uint64_t kChunkIds = 4;
const PointChunks kMasked = MaskedChunks(kPeerIds, kChunkIds);  // 3 ids, 3 test points, 64 canaries: 18 messages.
const PointChunks kAnswers = AnswerChunks(kOwnIds, kChunkIds);  // To 2 ids, 2 test points, 64 canaries: 2 a message.

PeerInbox::Limits TestLimits() { return {kRun, kOwnIds, /*max_ids=*/10, kChunkIds, /*threads=*/2}; }

// All that a peer sends that keeps to the protocol, before its answers and after.
std::vector<Message> LegalMessages() {
  std::vector<Message> messages = {SetSizeMessage(kRun, kPeerIds)};
  for (const auto& [kind, chunks] : {std::pair{PointKind::kMasked, kMasked}, {PointKind::kDoubleMasked, kAnswers}}) {
    const std::vector<Message> committed = Committed(kind, kRun, chunks, SomePoints(chunks.points));
    messages.insert(messages.end(), committed.begin(), committed.end());
  }
  messages.push_back(testing::OutcomeMessage(kRun, 1, Sha256("order")));
  return messages;
}

// An inbox that legal messages have brought into `state`.
std::unique_ptr<PeerInbox> InboxIn(State state) {
  auto inbox = std::make_unique<PeerInbox>(TestLimits());
  if (state == State::kFailed) {
    inbox->Fail(absl::UnavailableError("gone"));
    return inbox;
  }
  inbox->NoteSent(kAnswers.points);
  for (const Message& message : LegalMessages()) {
    if (inbox->state() == state) {
      break;
    }
    EXPECT_TRUE(inbox->Accept(message).ok());
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
  const std::unique_ptr<PeerInbox> inbox = InboxIn(State::kDoubleMaskedCommitments);
  const std::vector<Point> points = SomePoints(kMasked.points);
  EXPECT_EQ(*inbox->WaitForSetSize(), kPeerIds);
  EXPECT_TRUE(inbox->WaitForCommitments(PointKind::kMasked).ok());
  std::vector<Point> taken = *inbox->TakeMasked(1);
  EXPECT_THAT(taken, ::testing::ElementsAre(points[0]));
  taken = *inbox->TakeMasked(100);
  EXPECT_THAT(taken, ::testing::ElementsAreArray(points.begin() + 1, points.end()));
  EXPECT_THAT(*inbox->TakeMasked(1), ::testing::IsEmpty());
}

TEST(PeerInboxTest, GivesTheAnswersInOurOrder) {
  const std::unique_ptr<PeerInbox> inbox = InboxIn(State::kDoubleMasked);
  EXPECT_TRUE(inbox->WaitForCommitments(PointKind::kDoubleMasked).ok());
  const std::vector<Point> points = SomePoints(kAnswers.points);
  ASSERT_EQ(kAnswers.chunk, 2);
  for (uint64_t i = 0; i < kAnswers.points; i += 2) {
    EXPECT_EQ(inbox->state(), State::kDoubleMasked);
    EXPECT_FALSE(inbox->Answer(i).has_value());
    ASSERT_TRUE(inbox->Accept(DoubleMaskedMessage(kRun, i, {points[i], points[i + 1]})).ok());
    EXPECT_EQ(inbox->Answer(i), points[i]);
    EXPECT_EQ(inbox->Answer(i + 1), points[i + 1]);
    EXPECT_TRUE(inbox->WaitForAnswers(i + 2).ok());
  }
  EXPECT_EQ(inbox->state(), State::kOutcome);
  EXPECT_THAT(*inbox->TakeDoubleMasked(), ::testing::ElementsAreArray(points));
}

TEST(PeerInboxTest, RefusesPointsThatThePeerIsNotCommittedTo) {
  std::vector<Point> others = SomePoints(kMasked.points);
  std::swap(others[0], others[1]);
  others.resize(kChunkIds);
  ExpectFails(*InboxIn(State::kMasked), MaskedMessage(kRun, 0, others), absl::StatusCode::kInvalidArgument);
  ExpectFails(*InboxIn(State::kDoubleMasked), DoubleMaskedMessage(kRun, 0, {others[0], others[1]}),
              absl::StatusCode::kInvalidArgument);
}

TEST(PeerInboxTest, RefusesANonceThatDoesNotOpenTheCommitment) {
  for (const std::string& nonce : {std::string(), std::string(31, 'n'), std::string(32, 'm'), std::string(33, 'n')}) {
    Message message = MaskedMessage(kRun, 0, SomePoints(kChunkIds));
    message.mutable_masked()->set_nonce(nonce);
    ExpectFails(*InboxIn(State::kMasked), message, absl::StatusCode::kInvalidArgument);
  }
}

TEST(PeerInboxTest, RefusesOurCommitmentsSentBack) {
  const Message masked = CommitmentOf(MaskedMessage(kRun, 0, SomePoints(kChunkIds)));
  const Message answer = CommitmentOf(DoubleMaskedMessage(kRun, 0, SomePoints(kAnswers.chunk)));
  Digest digest;
  std::unique_ptr<PeerInbox> inbox = InboxIn(State::kMaskedCommitments);
  std::memcpy(digest.data(), masked.masked_commitment().sha256().data(), digest.size());
  inbox->NoteCommitted(PointKind::kMasked, digest);
  ExpectFails(*inbox, masked, absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(inbox->failure().message(), ::testing::HasSubstr("the peer sent our own"));
  inbox = InboxIn(State::kDoubleMaskedCommitments);
  std::memcpy(digest.data(), answer.double_masked_commitment().sha256().data(), digest.size());
  inbox->NoteCommitted(PointKind::kDoubleMasked, digest);
  ExpectFails(*inbox, answer, absl::StatusCode::kInvalidArgument);
}

TEST(PeerInboxTest, RefusesMalformedCommitments) {
  Message commitment = CommitmentOf(MaskedMessage(kRun, 0, SomePoints(kChunkIds)));
  commitment.mutable_masked_commitment()->set_first_index(kChunkIds);  // The second before the first.
  ExpectFails(*InboxIn(State::kMaskedCommitments), commitment, absl::StatusCode::kInvalidArgument);
  for (const size_t bytes : {0, 31, 33}) {
    commitment.mutable_masked_commitment()->set_first_index(0);
    commitment.mutable_masked_commitment()->mutable_sha256()->resize(bytes);
    ExpectFails(*InboxIn(State::kMaskedCommitments), commitment, absl::StatusCode::kInvalidArgument);
  }
}

TEST(PeerInboxTest, WaitingThreadIsWokenByTheMessage) {
  PeerInbox inbox(TestLimits());
  std::thread peer([&] { EXPECT_TRUE(inbox.Accept(SetSizeMessage(kRun, 7)).ok()); });
  EXPECT_EQ(*inbox.WaitForSetSize(), 7);
  peer.join();
}

TEST(PeerInboxTest, FailureWakesEveryWaitAndTheFirstReasonStays) {
  for (const State state : {State::kSetSize, State::kMaskedCommitments, State::kMasked, State::kDoubleMasked}) {
    const std::unique_ptr<PeerInbox> inbox = InboxIn(state);
    std::thread peer([&] {
      inbox->Fail(absl::UnavailableError("first"));
      inbox->Fail(absl::InternalError("second"));
    });
    EXPECT_EQ(inbox->TakeDoubleMasked().status(), absl::UnavailableError("first"));
    EXPECT_EQ(inbox->WaitForAnswers(1), absl::UnavailableError("first"));
    EXPECT_EQ(inbox->WaitForCommitments(PointKind::kMasked).status(), absl::UnavailableError("first"));
    EXPECT_EQ(inbox->WaitForSetSize().status(), absl::UnavailableError("first"));
    EXPECT_EQ(inbox->TakeMasked(1).status(), absl::UnavailableError("first"));
    peer.join();
    EXPECT_EQ(inbox->failure(), absl::UnavailableError("first"));
  }
}

TEST(PeerInboxTest, GivesTheOutcomeAndRefusesOneWithoutADigest) {
  const std::unique_ptr<PeerInbox> inbox = InboxIn(State::kComplete);
  const absl::StatusOr<PeerInbox::Outcome> outcome = inbox->WaitForOutcome();
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->shared_ids, 1);
  EXPECT_EQ(outcome->order_sha256, Sha256("order"));
  for (const size_t bytes : {0, 31, 33}) {
    Message message = LegalMessages().back();
    message.mutable_outcome()->mutable_order_sha256()->resize(bytes);
    const std::unique_ptr<PeerInbox> other = InboxIn(State::kOutcome);
    ExpectFails(*other, message, absl::StatusCode::kInvalidArgument);
    EXPECT_FALSE(other->WaitForOutcome().ok());
  }
}

TEST(PeerInboxTest, LossOfThePeerAfterTheLastMessageIsNoFailure) {
  const std::unique_ptr<PeerInbox> inbox = InboxIn(State::kComplete);
  inbox->Fail(absl::UnavailableError("gone"));
  EXPECT_TRUE(inbox->failure().ok());
  EXPECT_TRUE(inbox->TakeDoubleMasked().ok());
}

TEST(PeerInboxTest, RefusesEveryMessageKindOutOfTurn) {
  const Message masked = MaskedMessage(kRun, 0, SomePoints(kChunkIds));
  const Message answer = DoubleMaskedMessage(kRun, 0, SomePoints(kAnswers.chunk));
  const std::vector<std::pair<State, Message>> turns = {{State::kSetSize, SetSizeMessage(kRun, kPeerIds)},
                                                        {State::kMaskedCommitments, CommitmentOf(masked)},
                                                        {State::kMasked, masked},
                                                        {State::kDoubleMaskedCommitments, CommitmentOf(answer)},
                                                        {State::kDoubleMasked, answer},
                                                        {State::kOutcome, LegalMessages().back()}};
  for (const State state : {State::kSetSize, State::kMaskedCommitments, State::kMasked, State::kDoubleMaskedCommitments,
                            State::kDoubleMasked, State::kOutcome, State::kComplete}) {
    for (const auto& [turn, message] : turns) {
      if (turn == state) {
        EXPECT_TRUE(InboxIn(state)->Accept(message).ok());
      } else {
        ExpectFails(*InboxIn(state), message, absl::StatusCode::kFailedPrecondition);
      }
    }
  }
}

TEST(PeerInboxTest, AFailedInboxRepeatsItsReasonToLegalMessages) {
  for (const Message& message : LegalMessages()) {
    ExpectFails(*InboxIn(State::kFailed), message, absl::StatusCode::kUnavailable);
  }
}

TEST(PeerInboxTest, RefusesAMessageWithoutContentInEveryState) {
  Message empty;
  empty.set_run_id(kRun);
  for (const State state : {State::kSetSize, State::kMaskedCommitments, State::kMasked, State::kDoubleMaskedCommitments,
                            State::kDoubleMasked, State::kOutcome, State::kComplete, State::kFailed}) {
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

TEST(PeerInboxTest, RefusesIndicesThatDoNotContinue) {
  for (const uint64_t first_index : {uint64_t{1}, uint64_t{4}, ~uint64_t{0}}) {
    ExpectFails(*InboxIn(State::kMasked), MaskedMessage(kRun, first_index, SomePoints(kChunkIds)),
                absl::StatusCode::kInvalidArgument);
  }
}

TEST(PeerInboxTest, RefusesMoreAndFewerPointsThanAreDue) {
  for (const size_t count : {1, 3, 5, 6}) {
    ExpectFails(*InboxIn(State::kMasked), MaskedMessage(kRun, 0, SomePoints(count)),
                absl::StatusCode::kInvalidArgument);
  }
  ExpectFails(*InboxIn(State::kDoubleMasked), DoubleMaskedMessage(kRun, 0, SomePoints(3)),
              absl::StatusCode::kInvalidArgument);
}

TEST(PeerInboxTest, RefusesAnswersToWhatWasNotSent) {
  PeerInbox inbox(TestLimits());
  inbox.NoteSent(kAnswers.chunk + 1);
  const std::vector<Message> messages = LegalMessages();
  const size_t first_answer = 1 + 2 * kMasked.count();
  for (size_t i = 0; i <= first_answer; ++i) {
    ASSERT_TRUE(inbox.Accept(messages[i]).ok());
  }
  ExpectFails(inbox, messages[first_answer + 1], absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(inbox.failure().message(), ::testing::HasSubstr("where only 3 points have been sent"));
}

// Two buckets of the peer's, whose sizes follow from 20 and 30 ids.
class TwoBucketsTest : public ::testing::Test {
 protected:
  TwoBucketsTest() {
    inbox_.NoteSent(answers_.points);
    AcceptAll({TwoBucketsSize()});
    const Digest half = Sha256("half");
    Message key;
    key.set_run_id(kRun);
    key.mutable_bucket_key()->set_half(std::string(AsBytes(half)));
    AcceptAll({key});
    for (const uint64_t bucket : {0, 1}) {
      const std::vector<Message> messages = OfBucket(PointKind::kMasked, masked_, bucket);
      commitments_.insert(commitments_.end(), messages.begin(),
                          messages.begin() + static_cast<std::ptrdiff_t>(masked_.count()));
    }
    AcceptAll(commitments_);
  }

  static PeerInbox::Limits TwoBucketsLimits() {
    PeerInbox::Limits limits = {kRun, /*own_ids=*/20, /*max_ids=*/100, kChunkIds, /*threads=*/1};
    limits.bucket_ids = 16;
    return limits;
  }
  static Message TwoBucketsSize() {
    Message message = SetSizeMessage(kRun, 30);
    message.mutable_set_size()->set_bucket_key_commitment(std::string(AsBytes(CommitmentToHalf(kRun, Sha256("half")))));
    return message;
  }
  // First the commitments, then the points.
  static std::vector<Message> OfBucket(PointKind kind, const PointChunks& chunks, uint64_t bucket) {
    const std::vector<Point> points = SomePoints(chunks.points);
    std::vector<Message> commitments, messages;
    for (uint64_t first = 0; first < chunks.points; first += chunks.chunk) {
      const std::vector<Point> chunk(points.begin() + static_cast<std::ptrdiff_t>(first),
                                     points.begin() + static_cast<std::ptrdiff_t>(first + chunks.SizeAt(first)));
      const uint64_t index = bucket * chunks.points + first;
      messages.push_back(kind == PointKind::kMasked ? MaskedMessage(kRun, index, chunk)
                                                    : DoubleMaskedMessage(kRun, index, chunk));
      commitments.push_back(CommitmentOf(messages.back()));
    }
    commitments.insert(commitments.end(), messages.begin(), messages.end());
    return commitments;
  }
  std::vector<Message> MaskedOf(uint64_t bucket) const {
    std::vector<Message> messages = OfBucket(PointKind::kMasked, masked_, bucket);
    messages.erase(messages.begin(), messages.begin() + static_cast<std::ptrdiff_t>(masked_.count()));
    return messages;
  }
  std::vector<Message> AnswersOf(uint64_t bucket) const { return OfBucket(PointKind::kDoubleMasked, answers_, bucket); }
  void AcceptAll(const std::vector<Message>& messages) {
    for (const Message& message : messages) {
      ASSERT_TRUE(inbox_.Accept(message).ok()) << inbox_.failure();
    }
  }

  const PointChunks masked_ = MaskedChunks(BucketCapacity(30, 2), kChunkIds);
  const PointChunks answers_ = AnswerChunks(BucketCapacity(20, 2), kChunkIds, 2);
  PeerInbox inbox_{TwoBucketsLimits()};
  std::vector<Message> commitments_;
};

// The next bucket's points and commitments come while this party still looks at the answers of the one before.
TEST_F(TwoBucketsTest, TakesWhatAPeerThatIsAheadSends) {
  inbox_.NoteSent(answers_.points);
  AcceptAll(MaskedOf(0));
  const std::vector<Message> first = AnswersOf(0), second = AnswersOf(1);
  AcceptAll(first);
  AcceptAll(MaskedOf(1));
  AcceptAll({second.begin(), second.begin() + static_cast<std::ptrdiff_t>(answers_.count())});
  EXPECT_EQ(inbox_.state(), State::kDoubleMasked);
  EXPECT_EQ(inbox_.TakeMasked(masked_.points)->size(), masked_.points);
  EXPECT_THAT(*inbox_.TakeDoubleMasked(), ::testing::ElementsAreArray(SomePoints(answers_.points)));
  Sha256Hasher commitments;
  for (size_t i = 0; i < answers_.count(); ++i) {
    commitments.Update(second[i].double_masked_commitment().sha256());
  }
  EXPECT_EQ(*inbox_.WaitForCommitments(PointKind::kDoubleMasked), commitments.Finish());
  AcceptAll({second.begin() + static_cast<std::ptrdiff_t>(answers_.count()), second.end()});
  EXPECT_EQ(inbox_.state(), State::kOutcome);
  EXPECT_THAT(*inbox_.TakeDoubleMasked(), ::testing::ElementsAreArray(SomePoints(answers_.points)));
}

TEST_F(TwoBucketsTest, RefusesAnswersOfABucketBeforeThoseOfTheOneBeforeWereRead) {
  inbox_.NoteSent(answers_.points);
  AcceptAll(MaskedOf(0));
  AcceptAll(AnswersOf(0));
  AcceptAll(MaskedOf(1));
  const std::vector<Message> second = AnswersOf(1);
  AcceptAll({second.begin(), second.begin() + static_cast<std::ptrdiff_t>(answers_.count())});
  ExpectFails(inbox_, second[answers_.count()], absl::StatusCode::kFailedPrecondition);
}

TEST_F(TwoBucketsTest, RefusesCommitmentsToAnswersBeforeOurPointsOfTheBucket) {
  AcceptAll(MaskedOf(0));
  AcceptAll(AnswersOf(0));
  AcceptAll(MaskedOf(1));
  ExpectFails(inbox_, AnswersOf(1).front(), absl::StatusCode::kFailedPrecondition);
}

TEST(PeerInboxTest, RefusesBytesThatEncodeNoUsablePoint) {
  std::vector<Point> bad = testing::BadEncodings();
  bad.push_back(Point{});
  for (const Point& point : bad) {
    std::vector<Point> chunk = SomePoints(kChunkIds);
    chunk[1] = point;
    for (const auto& inbox : {InboxIn(State::kMasked), InboxIn(State::kDoubleMasked)}) {
      const bool masked = inbox->state() == State::kMasked;
      ExpectFails(*inbox, masked ? MaskedMessage(kRun, 0, chunk) : DoubleMaskedMessage(kRun, 0, {point, chunk[0]}),
                  absl::StatusCode::kInvalidArgument);
      EXPECT_THAT(inbox->failure().message(), ::testing::HasSubstr("canonical ristretto255 points"));
    }
  }
}

}  // namespace
}  // namespace splitveil
