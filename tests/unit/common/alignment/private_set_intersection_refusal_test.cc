// AlignIds against bad input and against a peer that breaks the protocol.
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <new>
#include <thread>

#include "absl/strings/str_cat.h"

#include "common/alignment/alignment_channel_pair.h"
#include "common/alignment/private_set_intersection.h"
#include "tests/unit/common/alignment/no_threads.h"
#include "tests/unit/common/alignment/points_for_test.h"

namespace splitveil {
namespace {

using testing::DoubleMaskedMessage;
using ::testing::HasSubstr;
using testing::MaskedMessage;
using ::testing::Not;
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

TEST(AlignIdsRefusalTest, RefusesMessagesOutOfTurn) {
  EXPECT_TRUE(absl::IsFailedPrecondition(AlignAgainst({MaskedMessage(kRun, 0, SomePoints(1))})));
  EXPECT_TRUE(absl::IsFailedPrecondition(AlignAgainst({SetSizeMessage(kRun, 3), SetSizeMessage(kRun, 3)})));
  EXPECT_TRUE(
      absl::IsFailedPrecondition(AlignAgainst({SetSizeMessage(kRun, 3), DoubleMaskedMessage(kRun, 0, SomePoints(3))})));
}

TEST(AlignIdsRefusalTest, RefusesMalformedPointsAmongMaskedIds) {
  std::vector<Point> bad = testing::BadEncodings();
  bad.push_back(Point{});
  for (const Point& point : bad) {
    EXPECT_TRUE(absl::IsInvalidArgument(AlignAgainst({SetSizeMessage(kRun, 1), MaskedMessage(kRun, 0, {point})})));
  }
}

TEST(AlignIdsRefusalTest, RefusesTruncatedPoints) {
  v1::AlignmentMessage message = MaskedMessage(kRun, 0, SomePoints(2));
  message.mutable_masked()->mutable_points()->pop_back();
  EXPECT_TRUE(absl::IsInvalidArgument(AlignAgainst({SetSizeMessage(kRun, 2), message})));
}

TEST(AlignIdsRefusalTest, RefusesMorePointsThanAnnounced) {
  EXPECT_TRUE(absl::IsInvalidArgument(AlignAgainst({SetSizeMessage(kRun, 2), MaskedMessage(kRun, 0, SomePoints(3))})));
}

TEST(AlignIdsRefusalTest, RefusesFewerPointsThanAnnounced) {
  EXPECT_TRUE(absl::IsFailedPrecondition(AlignAgainst(
      {SetSizeMessage(kRun, 4), MaskedMessage(kRun, 0, SomePoints(3)), DoubleMaskedMessage(kRun, 0, SomePoints(3))})));
}

// A peer that has read everything `OwnIds` sends, and so may answer; then sends `answers`.
absl::Status AlignAgainstAnswers(const std::vector<Point>& masked, const std::vector<Point>& answers) {
  return AlignAgainst([&](InMemoryAlignmentChannel& channel) {
    (void)channel.Send(SetSizeMessage(kRun, masked.size()));
    (void)channel.Send(MaskedMessage(kRun, 0, masked));
    while (true) {
      const absl::StatusOr<v1::AlignmentMessage> message = channel.Receive();
      if (!message.ok() || message->has_masked()) {
        break;
      }
    }
    (void)channel.Send(DoubleMaskedMessage(kRun, 0, answers));
    while (channel.Receive().ok()) {
    }
  });
}

TEST(AlignIdsRefusalTest, AcceptsAnswersThatAreInOrderFormally) {
  EXPECT_TRUE(AlignAgainstAnswers(SomePoints(2), SomePoints(3)).ok());
}

TEST(AlignIdsRefusalTest, RefusesRepeatedPeerIds) {
  std::vector<Point> masked = SomePoints(3);
  masked[2] = masked[0];
  const absl::Status status = AlignAgainstAnswers(masked, SomePoints(3));
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("masked: expected distinct"));
}

TEST(AlignIdsRefusalTest, RefusesRepeatedAnswers) {
  std::vector<Point> answers = SomePoints(3);
  answers[2] = answers[0];
  const absl::Status status = AlignAgainstAnswers(SomePoints(2), answers);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("double_masked: expected distinct"));
}

TEST(AlignIdsRefusalTest, RefusesMoreAnswersThanAsked) {
  EXPECT_TRUE(absl::IsInvalidArgument(AlignAgainstAnswers(SomePoints(2), SomePoints(4))));
}

TEST(AlignIdsRefusalTest, RefusesMalformedAnswers) {
  std::vector<Point> answers = SomePoints(3);
  answers[1] = testing::BadEncodings()[0];
  EXPECT_TRUE(absl::IsInvalidArgument(AlignAgainstAnswers(SomePoints(2), answers)));
}

TEST(AlignIdsRefusalTest, MissingAnswersMeanThePeerIsGone) {
  const absl::Status status = AlignAgainst([](InMemoryAlignmentChannel& channel) {
    (void)channel.Send(SetSizeMessage(kRun, 2));
    (void)channel.Send(MaskedMessage(kRun, 0, SomePoints(2)));
  });
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
}

TEST(AlignIdsRefusalTest, APeerThatDiesAtAnyPointIsUnavailable) {
  const std::vector<v1::AlignmentMessage> messages = {SetSizeMessage(kRun, 4), MaskedMessage(kRun, 0, SomePoints(2)),
                                                      MaskedMessage(kRun, 2, {SomePoints(4)[2], SomePoints(4)[3]})};
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
