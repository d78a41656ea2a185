// AlignIds against bad input and against a peer that breaks the protocol.
#include <algorithm>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <new>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/alignment/masking_key.h"
#include "common/alignment/private_set_intersection.h"
#include "tests/testing/alignment_channel_pair.h"
#include "tests/testing/process/no_threads.h"
#include "tests/unit/common/alignment/points_for_test.h"
#include "tests/unit/common/alignment/scripted_peer.h"

namespace splitveil {
namespace {

using testing::AnswersOf;
using testing::DoubleMaskedMessage;
using ::testing::HasSubstr;
using testing::MaskedMessage;
using ::testing::Not;
using testing::PeerPoints;
using testing::SetSizeMessage;
using testing::SomePoints;

constexpr char kRun[] = "run";
const std::vector<std::string>& OwnIds() {
  static const auto* ids = new std::vector<std::string>{"planted-id-1", "planted-id-2", "planted-id-3"};
  return *ids;
}

AlignmentOptions TestOptions() {
  AlignmentOptions options;
  options.run_id = kRun;
  options.max_ids = 50;
  options.chunk_ids = 10;
  options.threads = 2;
  return options;
}

// AlignIds where `peer` plays the other end and hangs up when it returns.
absl::Status AlignAgainst(const std::function<void(InMemoryAlignmentChannel&)>& peer) {
  AlignmentChannelPair channels(100);
  std::thread peer_thread([&] {
    peer(*channels.second);
    channels.second->Close();
  });
  absl::Status status = AlignIds(OwnIds(), TestOptions(), *channels.first).status();
  channels.first->Close();
  peer_thread.join();
  EXPECT_THAT(status.message(), Not(HasSubstr("planted")));
  return status;
}

absl::Status AlignAgainst(const std::vector<v1::AlignmentMessage>& messages) {
  return AlignAgainst([&](InMemoryAlignmentChannel& channel) {
    for (const v1::AlignmentMessage& message : messages) {
      (void)channel.Send(message);
    }
    while (channel.Receive().ok()) {  // Until the other end hangs up.
    }
  });
}

absl::Status AlignWithInput(const std::vector<std::string>& ids, const AlignmentOptions& options = TestOptions()) {
  AlignmentChannelPair channels(100);
  absl::Status status = AlignIds(ids, options, *channels.first).status();
  channels.first->Close();
  EXPECT_TRUE(absl::IsOutOfRange(channels.second->Receive().status())) << "something was sent";
  return status;
}

TEST(AlignIdsRefusalTest, RefusesNoIds) { EXPECT_TRUE(absl::IsInvalidArgument(AlignWithInput({}))); }

TEST(AlignIdsRefusalTest, CountsEmptyAndRepeatedOwnIdsWithoutNamingThem) {
  const absl::Status status = AlignWithInput({"planted", "", "planted", "other", "", "planted"});
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(status.message(), HasSubstr("2 empty and 3 repeated of 6"));
  EXPECT_THAT(status.message(), Not(HasSubstr("planted")));
}

TEST(AlignIdsRefusalTest, RefusesMoreOwnIdsThanAgreed) {
  AlignmentOptions options = TestOptions();
  options.max_ids = 2;
  EXPECT_TRUE(absl::IsInvalidArgument(AlignWithInput(OwnIds(), options)));
}

TEST(AlignIdsRefusalTest, RefusesImpossibleOptions) {
  AlignmentOptions options = TestOptions();
  options.chunk_ids = 0;
  EXPECT_TRUE(absl::IsInvalidArgument(AlignWithInput(OwnIds(), options)));
  options = TestOptions();
  options.threads = -1;
  EXPECT_TRUE(absl::IsInvalidArgument(AlignWithInput(OwnIds(), options)));
}

TEST(AlignIdsRefusalTest, RefusesAnEmptyPeerSet) {
  const absl::Status status = AlignAgainst({SetSizeMessage(kRun, 0)});
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(status.message(), HasSubstr("expected 1 to 50, found 0"));
}

TEST(AlignIdsRefusalTest, RefusesAPeerSetAboveTheAgreedSize) {
  EXPECT_TRUE(absl::IsInvalidArgument(AlignAgainst({SetSizeMessage(kRun, 51)})));
}

TEST(AlignIdsRefusalTest, SendsNoMaskedIdBeforeThePeersSetSizeIsAccepted) {
  AlignmentChannelPair channels(100);
  ASSERT_TRUE(channels.second->Send(SetSizeMessage(kRun, 51)).ok());
  EXPECT_FALSE(AlignIds(OwnIds(), TestOptions(), *channels.first).ok());
  channels.first->Close();
  for (auto message = channels.second->Receive(); message.ok(); message = channels.second->Receive()) {
    EXPECT_TRUE(message->has_set_size());
  }
}

TEST(AlignIdsRefusalTest, RefusesAnotherRun) {
  EXPECT_TRUE(absl::IsFailedPrecondition(AlignAgainst({SetSizeMessage("another", 3)})));
}

// What a peer with `ids` ids sends up to its last masked point. `masked`: MaskedPoints(ids).
std::vector<v1::AlignmentMessage> UpToMasked(uint64_t ids, const std::vector<Point>& masked) {
  return testing::UpToMasked({kRun, 10, ids, masked, {}, {}});
}

// A peer of two ids that OwnIds lacks, which keeps to the protocol until it has all of OwnIds' masked points, and whose
// answers are what `answer` makes of them.
using Answerer = std::function<std::vector<Point>(const std::vector<Point>&)>;
absl::Status AlignAgainstAnswers(const std::vector<Point>& masked, const Answerer& answer,
                                 const v1::AlignmentMessage& outcome = testing::OutcomeMessage(kRun, 0, Sha256(""))) {
  return AlignAgainst([&](InMemoryAlignmentChannel& channel) {
    testing::Play({kRun, 10, 2, masked, answer, outcome}, OwnIds().size(), channel);
  });
}

TEST(AlignIdsRefusalTest, RefusesMessagesOutOfTurn) {
  EXPECT_TRUE(absl::IsFailedPrecondition(AlignAgainst({MaskedMessage(kRun, 0, SomePoints(1))})));
  EXPECT_TRUE(absl::IsFailedPrecondition(AlignAgainst({SetSizeMessage(kRun, 3), SetSizeMessage(kRun, 3)})));
  EXPECT_TRUE(
      absl::IsFailedPrecondition(AlignAgainst({SetSizeMessage(kRun, 3), MaskedMessage(kRun, 0, SomePoints(6))})));
  EXPECT_TRUE(
      absl::IsFailedPrecondition(AlignAgainst({SetSizeMessage(kRun, 3), DoubleMaskedMessage(kRun, 0, SomePoints(3))})));
}

TEST(AlignIdsRefusalTest, RefusesMalformedPointsAmongMaskedIds) {
  std::vector<Point> bad = testing::BadEncodings();
  bad.push_back(Point{});
  for (const Point& point : bad) {
    std::vector<Point> masked = SomePoints(MaskedPoints(1));
    masked[1] = point;
    const absl::Status status = AlignAgainst(UpToMasked(1, masked));
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(status.message(), HasSubstr("canonical"));
  }
}

TEST(AlignIdsRefusalTest, RefusesTruncatedPoints) {
  std::vector<v1::AlignmentMessage> messages = UpToMasked(1, SomePoints(MaskedPoints(1)));
  messages.back().mutable_masked()->mutable_points()->pop_back();
  EXPECT_TRUE(absl::IsInvalidArgument(AlignAgainst(messages)));
}

TEST(AlignIdsRefusalTest, RefusesMoreAndFewerPointsThanAnnounced) {
  for (const size_t points : {7, 9}) {  // 8 are due, of 68.
    std::vector<v1::AlignmentMessage> messages = UpToMasked(2, SomePoints(MaskedPoints(2)));
    messages.back() = MaskedMessage(kRun, 60, SomePoints(points));
    EXPECT_TRUE(absl::IsInvalidArgument(AlignAgainst(messages)));
  }
}

TEST(AlignIdsRefusalTest, AcceptsAnswersByOneExponentAndTheSameOutcome) {
  const MaskingKey key = MaskingKey::Generate();
  const absl::Status status =
      AlignAgainstAnswers(PeerPoints(key, kRun, 2), [&](const auto& points) { return AnswersOf(key, points); });
  EXPECT_TRUE(status.ok()) << status;
}

TEST(AlignIdsRefusalTest, RefusesRepeatedPeerIds) {
  const MaskingKey key = MaskingKey::Generate();
  std::vector<Point> masked = PeerPoints(key, kRun, 2);
  masked[2] = masked[0];
  const absl::Status status = AlignAgainstAnswers(masked, [&](const auto& points) { return AnswersOf(key, points); });
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("masked: expected distinct"));
}

TEST(AlignIdsRefusalTest, RefusesAPeerOfWhichACanaryIsMissing) {
  const MaskingKey key = MaskingKey::Generate(), other = MaskingKey::Generate();
  for (const uint64_t canaries : {uint64_t{0}, uint64_t{1}, kCanaries - 1}) {
    const absl::Status status = AlignAgainstAnswers(PeerPoints(key, kRun, 2, {}, canaries),
                                                    [&](const auto& points) { return AnswersOf(key, points); });
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(status.message(),
                HasSubstr(absl::StrCat("the 64 points that both parties add, found ", canaries, ":")));
  }
  // Those of another run; and all of them, by a peer that answers with an exponent of its own: it would find every id,
  // this party none.
  for (const auto& masked : {PeerPoints(key, "another", 2), PeerPoints(other, kRun, 2)}) {
    const absl::Status status = AlignAgainstAnswers(masked, [&](const auto& points) { return AnswersOf(key, points); });
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(status.message(), HasSubstr("found 0"));
  }
}

// As two parties of which one computes wrongly: neither must wait for the other's outcome for ever, nor say later that
// the stream was closed.
TEST(AlignIdsRefusalTest, SaysWhatIsWrongToAPeerThatWaitsForAnOutcome) {
  const MaskingKey key = MaskingKey::Generate();
  testing::ScriptedPeer peer = {kRun,
                                static_cast<uint64_t>(TestOptions().chunk_ids),
                                2,
                                PeerPoints(key, kRun, 2, {}, kCanaries - 1),
                                [&](const auto& points) { return AnswersOf(key, points); },
                                testing::OutcomeMessage(kRun, 0, Sha256(""))};
  peer.outcome_after_other = true;
  const absl::Status status =
      AlignAgainst([&](InMemoryAlignmentChannel& channel) { Play(peer, OwnIds().size(), channel); });
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("the 64 points that both parties add, found 63:"));
}

// A peer that announces two ids and masks three of ours in the places of its test points, which only it could check.
TEST(AlignIdsRefusalTest, RefusesMoreSharedIdsThanThePeerAnnounced) {
  const MaskingKey key = MaskingKey::Generate();
  std::vector<Point> own(OwnIds().size());
  for (size_t i = 0; i < own.size(); ++i) {
    Point hashed;
    crypto_core_ristretto255_from_hash(hashed.data(), IdHasher(kRun).Hash(OwnIds()[i]).data());
    ASSERT_TRUE(key.Mask(hashed, own[i]));
  }
  const absl::Status status =
      AlignAgainstAnswers(PeerPoints(key, kRun, 2, own), [&](const auto& points) { return AnswersOf(key, points); });
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("expected at most 2 shared ids, as many as the peer announced, found 3"));
}

TEST(AlignIdsRefusalTest, RefusesAnotherOutcome) {
  const MaskingKey key = MaskingKey::Generate();
  for (const auto& outcome :
       {testing::OutcomeMessage(kRun, 1, Sha256("")), testing::OutcomeMessage(kRun, 0, Sha256("other")),
        testing::OutcomeMessage(kRun, kCanaries, Sha256(""))}) {
    const absl::Status status = AlignAgainstAnswers(
        PeerPoints(key, kRun, 2), [&](const auto& points) { return AnswersOf(key, points); }, outcome);
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(status.message(), HasSubstr("the parties differ: this one found 0 shared ids, the peer "));
  }
}

TEST(AlignIdsRefusalTest, RefusesAnswersThatAreRepeatedMadeUpOrSwapped) {
  const MaskingKey key = MaskingKey::Generate();
  const std::vector<Answerer> answerers = {
      [&](const auto& points) { return std::vector<Point>(points.size(), AnswersOf(key, points)[0]); },
      [&](const auto& points) { return SomePoints(points.size()); },
      [&](const auto& points) {
        std::vector<Point> answers = AnswersOf(key, points);
        std::rotate(answers.begin(), answers.begin() + 1, answers.end());
        return answers;
      },
      [&](const auto& points) {  // Each with an exponent of its own.
        std::vector<Point> answers(points.size());
        for (size_t i = 0; i < points.size(); ++i) {
          EXPECT_TRUE(MaskingKey::Generate().Mask(points[i], answers[i]));
        }
        return answers;
      },
      [&](const auto& points) { return points; },  // Ours, sent back.
  };
  for (size_t i = 0; i < answerers.size(); ++i) {
    const absl::Status status = AlignAgainstAnswers(PeerPoints(key, kRun, 2), answerers[i]);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << i << ": " << status;
    EXPECT_THAT(status.message(), HasSubstr("double_masked: expected")) << i;
  }
}

TEST(AlignIdsRefusalTest, RefusesMalformedAnswers) {
  const absl::Status status = AlignAgainstAnswers(SomePoints(MaskedPoints(2)), [](const auto& points) {
    std::vector<Point> answers = SomePoints(points.size());
    answers[0] = testing::BadEncodings()[0];
    return answers;
  });
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
}

// Holds no id; sends back what it gets. Without commitments it "shared" every id.
TEST(AlignIdsRefusalTest, RefusesAPeerThatSendsEverythingBack) {
  const absl::Status status = AlignAgainst([&](InMemoryAlignmentChannel& channel) {
    for (auto message = channel.Receive(); message.ok(); message = channel.Receive()) {
      (void)channel.Send(*message);
    }
  });
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("the peer sent our own"));
}

// The same with a power of our points, which no comparison would find, in place of those that it is committed to.
TEST(AlignIdsRefusalTest, RefusesAPeerThatMakesItsSetOfOurPoints) {
  const MaskingKey key = MaskingKey::Generate();
  const absl::Status status = AlignAgainst([&](InMemoryAlignmentChannel& channel) {
    std::vector<v1::AlignmentMessage> messages = UpToMasked(OwnIds().size(), SomePoints(MaskedPoints(3)));
    while (messages.back().has_masked()) {
      messages.pop_back();
    }
    for (const v1::AlignmentMessage& message : messages) {
      (void)channel.Send(message);
    }
    std::vector<Point> points;
    while (points.empty()) {
      const absl::StatusOr<v1::AlignmentMessage> message = channel.Receive();
      if (!message.ok()) {
        return;
      }
      testing::AppendPoints(message->masked().points(), points);
    }
    (void)channel.Send(MaskedMessage(kRun, 0, AnswersOf(key, points)));
    while (channel.Receive().ok()) {
    }
  });
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("that the peer is committed to, found others"));
}

// What a party with OwnIds sends to a peer that sends `messages` and then waits. It is told of `expected` messages, so
// that it reads no more than those that must come; what comes beyond is among the result, too.
std::vector<v1::AlignmentMessage> SentTo(const std::vector<v1::AlignmentMessage>& messages, size_t expected) {
  std::vector<v1::AlignmentMessage> sent;
  AlignmentChannelPair channels(100);
  std::thread party([&] { EXPECT_FALSE(AlignIds(OwnIds(), TestOptions(), *channels.first).ok()); });
  for (const v1::AlignmentMessage& message : messages) {
    (void)channels.second->Send(message);
  }
  while (sent.size() < expected) {
    sent.push_back(*channels.second->Receive());
  }
  channels.second->Close();
  party.join();
  for (auto message = channels.second->Receive(); message.ok(); message = channels.second->Receive()) {
    sent.push_back(*message);
  }
  return sent;
}

TEST(AlignIdsRefusalTest, SendsNoPointBeforeThePeerHasCommittedToItsOwn) {
  const size_t expected = 1 + MaskedChunks(OwnIds().size(), 10).count();
  const std::vector<v1::AlignmentMessage> sent = SentTo({SetSizeMessage(kRun, 2)}, expected);
  ASSERT_EQ(sent.size(), expected);
  EXPECT_TRUE(sent[0].has_set_size());
  for (size_t i = 1; i < expected; ++i) {
    EXPECT_TRUE(sent[i].has_masked_commitment());
  }
}

TEST(AlignIdsRefusalTest, SendsNoAnswerBeforeThePeerHasCommittedToItsOwn) {
  const size_t answers = AnswerChunks(2, 10).count();
  const size_t before = 1 + 2 * MaskedChunks(OwnIds().size(), 10).count();
  const std::vector<v1::AlignmentMessage> sent = SentTo(UpToMasked(2, SomePoints(MaskedPoints(2))), before + answers);
  ASSERT_EQ(sent.size(), before + answers);
  EXPECT_TRUE(sent[before - 1].has_masked());
  for (size_t i = before; i < sent.size(); ++i) {
    EXPECT_TRUE(sent[i].has_double_masked_commitment());
  }
}

// Both hold `count` ids; the peer answers a third of them and waits for the rest of its own answers. It has then
// received `ahead` messages more than it sent, or one more.
void ExpectAhead(int count, int chunk_ids, size_t ahead) {
  std::vector<std::string> ids;
  for (int i = 0; i < count; ++i) {
    ids.push_back(absl::StrCat("id-", i));
  }
  AlignmentOptions options = TestOptions();
  options.max_ids = 1000;
  options.chunk_ids = chunk_ids;
  const PointChunks answers = AnswerChunks(ids.size(), static_cast<uint64_t>(chunk_ids));
  const size_t given = answers.count() / 3;
  // Of an honest peer's messages, but for the answers after the first `given`.
  class LeavingChannel : public AlignmentChannel {
   public:
    LeavingChannel(InMemoryAlignmentChannel& channel, size_t answers, size_t leaves_after)
        : channel_(channel), answers_(answers), left_after_(leaves_after) {}
    absl::Status Send(const v1::AlignmentMessage& message) override {
      return message.has_double_masked() && ++sent_ > left_after_ ? absl::OkStatus() : channel_.Send(message);
    }
    absl::StatusOr<v1::AlignmentMessage> Receive() override {
      if (received_ == answers_) {
        channel_.Close();
      }
      auto message = channel_.Receive();
      received_ += message.ok() && message->has_double_masked() ? 1 : 0;
      return message;
    }
    size_t received() const { return received_; }

   private:
    InMemoryAlignmentChannel& channel_;
    const size_t answers_, left_after_;
    size_t sent_ = 0, received_ = 0;
  };
  AlignmentChannelPair channels(1000);
  // Were the party not in step, it would send all of its answers.
  LeavingChannel leaving(*channels.second, given + ahead, given);
  std::thread peer([&] { EXPECT_FALSE(AlignIds(ids, options, leaving).ok()); });
  const absl::Status status = AlignIds(ids, options, *channels.first).status();
  peer.join();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_GE(leaving.received(), given + ahead);
  EXPECT_LE(leaving.received(), given + ahead + 1);
}

TEST(AlignIdsRefusalTest, APeerThatLeavesEarlyIsAheadByThreeMessagesOfSixtyFour) {
  ExpectAhead(/*count=*/200, /*chunk_ids=*/10, /*ahead=*/2);
}

TEST(AlignIdsRefusalTest, APeerThatLeavesEarlyIsAheadByNineMessagesOfMany) {
  ExpectAhead(/*count=*/640, /*chunk_ids=*/2, /*ahead=*/8);  // 384 messages.
}

TEST(AlignIdsRefusalTest, APeerThatDiesAtAnyPointIsUnavailable) {
  const std::vector<v1::AlignmentMessage> messages = UpToMasked(8, SomePoints(MaskedPoints(8)));
  for (size_t sent = 0; sent <= messages.size(); ++sent) {
    const absl::Status status = AlignAgainst([&](InMemoryAlignmentChannel& channel) {
      for (size_t i = 0; i < sent; ++i) {
        (void)channel.Send(messages[i]);
      }
    });
    EXPECT_TRUE(absl::IsUnavailable(status)) << "after " << sent << " messages: " << status;
    EXPECT_THAT(status.message(), HasSubstr("peer closed the alignment"));
  }
}

TEST(AlignIdsRefusalTest, KeepsTheChannelsOwnCode) {
  class DeniedChannel : public AlignmentChannel {
   public:
    absl::Status Send(const v1::AlignmentMessage&) override { return absl::UnavailableError("broken"); }
    absl::StatusOr<v1::AlignmentMessage> Receive() override { return absl::PermissionDeniedError("not you"); }
  };
  DeniedChannel channel;
  // What the peer said explains why Send failed.
  EXPECT_EQ(AlignIds(OwnIds(), TestOptions(), channel).status(), absl::PermissionDeniedError("not you"));
}

TEST(AlignIdsRefusalTest, NoThreadToReadOnIsAnInternalError) {
  AlignmentChannelPair channels(1);
  const testing::NoThreads no_threads;
  EXPECT_TRUE(absl::IsInternal(AlignIds(OwnIds(), TestOptions(), *channels.first).status()));
}

TEST(AlignIdsRefusalTest, MemoryThatRunsOutIsAnInternalErrorOnEitherThread) {
  class PoorChannel : public AlignmentChannel {
   public:
    explicit PoorChannel(bool sending) : sending_(sending) {}
    absl::Status Send(const v1::AlignmentMessage&) override {
      if (sending_) {
        throw std::bad_alloc();
      }
      return absl::OkStatus();
    }
    absl::StatusOr<v1::AlignmentMessage> Receive() override {
      if (!sending_) {
        throw std::bad_alloc();
      }
      return absl::OutOfRangeError("closed");
    }

   private:
    const bool sending_;
  };
  PoorChannel receiving(false);
  EXPECT_TRUE(absl::IsInternal(AlignIds(OwnIds(), TestOptions(), receiving).status()));
  PoorChannel sending(true);  // The reader may be first to fail: then the peer is gone.
  const absl::Status status = AlignIds(OwnIds(), TestOptions(), sending).status();
  EXPECT_TRUE(absl::IsInternal(status) || absl::IsUnavailable(status)) << status;
}

TEST(AlignIdsRefusalTest, PartiesOfDifferentRunsBothRefuse) {
  AlignmentChannelPair channels(1);
  AlignmentOptions other = TestOptions();
  other.run_id = "other";
  absl::Status peer_status;
  std::thread peer([&] {
    peer_status = AlignIds(OwnIds(), other, *channels.second).status();
    channels.second->Close();
  });
  const absl::Status status = AlignIds(OwnIds(), TestOptions(), *channels.first).status();
  channels.first->Close();
  peer.join();
  // The one that sees the other's message first may hang up before it has sent its own.
  for (const absl::Status& each : {status, peer_status}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(each) || absl::IsUnavailable(each)) << each;
  }
  EXPECT_TRUE(absl::IsFailedPrecondition(status) || absl::IsFailedPrecondition(peer_status));
}

}  // namespace
}  // namespace splitveil
