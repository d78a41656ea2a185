#include "common/process/exit_code.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace splitveil {
namespace {

std::string Printed(const absl::Status& status, int expected_code) {
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(Exit("label_party", status), expected_code);
  return ::testing::internal::GetCapturedStderr();
}

TEST(ExitCodeTest, OkIsZeroAndSilent) { EXPECT_EQ(Printed(absl::OkStatus(), 0), ""); }

TEST(ExitCodeTest, InvalidInputIsTwo) {
  EXPECT_EQ(ExitCodeFor(absl::InvalidArgumentError("")), ExitCode::kInvalidInput);
  EXPECT_EQ(ExitCodeFor(absl::NotFoundError("")), ExitCode::kInvalidInput);
  EXPECT_EQ(ExitCodeFor(absl::OutOfRangeError("")), ExitCode::kInvalidInput);
  EXPECT_EQ(ExitCodeFor(absl::AlreadyExistsError("")), ExitCode::kInvalidInput);
  EXPECT_EQ(ExitCodeFor(absl::DataLossError("")), ExitCode::kInvalidInput);  // A damaged ledger.
}

TEST(ExitCodeTest, PeerNotReachedIsThree) {
  EXPECT_EQ(ExitCodeFor(absl::CancelledError("")), ExitCode::kPeerUnreachable);
  EXPECT_EQ(ExitCodeFor(absl::UnavailableError("")), ExitCode::kPeerUnreachable);
  EXPECT_EQ(ExitCodeFor(absl::DeadlineExceededError("")), ExitCode::kPeerUnreachable);
  EXPECT_EQ(ExitCodeFor(PeerStartedAgain("the peer")), ExitCode::kPeerUnreachable);
  EXPECT_EQ(ExitCodeFor(AsRefusal(PeerStartedAgain("the peer"))), ExitCode::kPeerUnreachable);  // By the wire.
}

TEST(ExitCodeTest, RefusalIsFour) {
  EXPECT_EQ(ExitCodeFor(absl::PermissionDeniedError("")), ExitCode::kRefused);
  EXPECT_EQ(ExitCodeFor(absl::UnauthenticatedError("")), ExitCode::kRefused);
  EXPECT_EQ(ExitCodeFor(absl::FailedPreconditionError("")), ExitCode::kRefused);
}

TEST(ExitCodeTest, HaltIsFiveWhicheverPartyHalts) {
  EXPECT_EQ(ExitCodeFor(AsHalt(absl::ResourceExhaustedError(""))), ExitCode::kHalted);
  EXPECT_EQ(ExitCodeFor(AsRefusal(AsHalt(absl::ResourceExhaustedError("")))), ExitCode::kHalted);
  EXPECT_EQ(ExitCodeFor(AsHalt(AsRefusal(absl::ResourceExhaustedError("")))), ExitCode::kHalted);
}

TEST(ExitCodeTest, StoppedOnRequestIsSixAndNotThePeersCancellation) {
  EXPECT_EQ(ExitCodeFor(StoppedOnRequest()), ExitCode::kStopped);
  EXPECT_EQ(StoppedOnRequest("the wait").message(), "stopped on request, before the wait was complete");
  EXPECT_TRUE(IsStoppedOnRequest(StoppedOnRequest()));
  EXPECT_FALSE(IsStoppedOnRequest(absl::CancelledError(StoppedOnRequest().message())));
  EXPECT_FALSE(IsStoppedOnRequest(absl::OkStatus()));
}

TEST(ExitCodeTest, ExhaustedResourceIsNoHaltUnlessMarked) {
  const absl::Status exhausted = absl::ResourceExhaustedError("no thread left");
  EXPECT_FALSE(IsHalt(exhausted));
  EXPECT_EQ(ExitCodeFor(exhausted), ExitCode::kInternal);
  EXPECT_FALSE(IsHalt(AsRefusal(exhausted)));
  EXPECT_EQ(ExitCodeFor(AsRefusal(exhausted)), ExitCode::kRefused);
}

TEST(ExitCodeTest, HaltKeepsCodeMessageAndPayloads) {
  absl::Status status = absl::ResourceExhaustedError("release gate: step 7");
  status.SetPayload("splitveil/other", absl::Cord("kept"));
  const absl::Status halt = AsHalt(status);
  EXPECT_TRUE(IsHalt(halt));
  EXPECT_EQ(halt.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(halt.message(), "release gate: step 7");
  EXPECT_EQ(halt.GetPayload("splitveil/other"), absl::Cord("kept"));
}

TEST(ExitCodeTest, HaltIsTheMarkThatCrossesTheWire) {
  absl::Status from_peer = absl::ResourceExhaustedError("release gate");
  from_peer.SetPayload("splitveil/halted", absl::Cord());
  EXPECT_TRUE(IsHalt(from_peer));
  EXPECT_TRUE(AsHalt(absl::ResourceExhaustedError("")).GetPayload("splitveil/halted").has_value());
}

TEST(ExitCodeTest, OnlyAnExhaustedResourceCanBeAHalt) {
  for (const absl::StatusCode code :
       {absl::StatusCode::kInvalidArgument, absl::StatusCode::kUnavailable, absl::StatusCode::kInternal}) {
    absl::Status status(code, "");
    EXPECT_EQ(AsHalt(status), status);
    const ExitCode unmarked = ExitCodeFor(status);
    status.SetPayload("splitveil/halted", absl::Cord());
    EXPECT_FALSE(IsHalt(status));
    EXPECT_EQ(ExitCodeFor(status), unmarked) << absl::StatusCodeToString(code);
  }
}

TEST(ExitCodeTest, OkIsNeverAHalt) {
  EXPECT_TRUE(AsHalt(absl::OkStatus()).ok());
  EXPECT_FALSE(IsHalt(absl::OkStatus()));
  EXPECT_EQ(ExitCodeFor(AsHalt(absl::OkStatus())), ExitCode::kDone);
}

TEST(ExitCodeTest, TheRestIsOne) {
  for (const absl::StatusCode code :
       {absl::StatusCode::kUnknown, absl::StatusCode::kUnimplemented, absl::StatusCode::kInternal}) {
    EXPECT_EQ(ExitCodeFor(absl::Status(code, "")), ExitCode::kInternal) << absl::StatusCodeToString(code);
  }
}

TEST(ExitCodeTest, RefusalWinsOverAnyOtherCode) {
  for (const absl::StatusCode code : {absl::StatusCode::kInvalidArgument, absl::StatusCode::kUnavailable}) {
    const absl::Status refused = AsRefusal(absl::Status(code, "schedule"));
    EXPECT_EQ(ExitCodeFor(refused), ExitCode::kRefused);
    EXPECT_EQ(refused.code(), code);
    EXPECT_EQ(refused.message(), "schedule");
  }
}

TEST(ExitCodeTest, APeerThatFailedByItselfHasRefusedNothing) {
  EXPECT_EQ(ExitCodeFor(AsRefusal(absl::InternalError("the label party failed"))), ExitCode::kPeerUnreachable);
}

TEST(ExitCodeTest, RefusalIsTheMarkOfStatusesFromThePeer) {
  absl::Status from_peer = absl::InvalidArgumentError("batch 7");
  from_peer.SetPayload("splitveil/refused-by-peer", absl::Cord());
  EXPECT_EQ(ExitCodeFor(from_peer), ExitCode::kRefused);
}

TEST(ExitCodeTest, OkIsNeverARefusal) {
  EXPECT_TRUE(AsRefusal(absl::OkStatus()).ok());
  EXPECT_EQ(ExitCodeFor(AsRefusal(absl::OkStatus())), ExitCode::kDone);
}

TEST(ExitCodeTest, ErrorIsOneLineWithTheProgram) {
  EXPECT_EQ(Printed(absl::NotFoundError("run.textproto: no such file"), 2),
            "label_party: error: run.textproto: no such file\n");
}

TEST(ExitCodeTest, AFewLinesOfMessageBecomeOne) {
  EXPECT_EQ(Printed(absl::InternalError("first\nsecond\r\n\tthird\n"), 1),
            "label_party: error: first second   third\n");
}

TEST(ExitCodeTest, ThePeersTextCannotSteerTheTerminal) {
  const std::string printed = Printed(AsRefusal(absl::InvalidArgumentError("\033[2J\xC2\x9B"
                                                                           "31mgone\a")),
                                      4);
  EXPECT_EQ(printed, "label_party: error:  [2J 31mgone\n");
}

TEST(ExitCodeTest, ErrorWithoutMessageShowsItsCode) {
  EXPECT_EQ(Printed(absl::Status(absl::StatusCode::kDataLoss, ""), 2), "label_party: error: DATA_LOSS\n");
}

}  // namespace
}  // namespace splitveil
