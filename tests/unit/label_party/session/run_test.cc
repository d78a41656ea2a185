// The first end counts, what the peer hears of each cause, and where the protocol is then.
#include "label_party/session/run.h"

#include <chrono>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>

#include "common/process/exit_code.h"

namespace splitveil {
namespace {

using Cause = RunEnd::Cause;
using State = ProtocolState::State;

class RunEndTest : public ::testing::Test {
 protected:
  RunEndTest() {
    protocol_.Opened("run");
    protocol_.Training();
  }

  ProtocolState protocol_;
  WakeableSleep waiting_;
  RunEnd end_{&protocol_, &waiting_};
};

TEST_F(RunEndTest, EachCauseIsHeardRecordedAndExitsAsItShould) {
  struct Case {
    Cause cause;
    absl::Status why;
    const char* name;
    absl::StatusCode heard;
    ExitCode exit_code;
    State state;
  };
  const Case cases[] = {
      {Cause::kCompleted, absl::OkStatus(), "completed", absl::StatusCode::kOk, ExitCode::kDone, State::kCompleted},
      {Cause::kStopped, StoppedOnRequest(), "stopped", absl::StatusCode::kCancelled, ExitCode::kStopped, State::kEnded},
      {Cause::kPeer, absl::UnavailableError("silent"), "failed", absl::StatusCode::kUnavailable,
       ExitCode::kPeerUnreachable, State::kEnded},
      {Cause::kRefused, absl::InvalidArgumentError("seed"), "failed", absl::StatusCode::kInvalidArgument,
       ExitCode::kRefused, State::kEnded},
      {Cause::kPeerStartedAgain, PeerStartedAgain("the peer"), "failed", absl::StatusCode::kUnavailable,
       ExitCode::kPeerUnreachable, State::kEnded},
      {Cause::kOwnFailure, absl::InvalidArgumentError("row 7"), "failed", absl::StatusCode::kInternal,
       ExitCode::kInvalidInput, State::kEnded},
      {Cause::kOwnFailure, AsHalt(absl::ResourceExhaustedError("AUC 0.9 on batch 3")), "halted",
       absl::StatusCode::kResourceExhausted, ExitCode::kHalted, State::kEnded},
      {Cause::kOperatorHalt, AsHalt(absl::ResourceExhaustedError("operator")), "halted",
       absl::StatusCode::kResourceExhausted, ExitCode::kHalted, State::kEnded}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.why.ToString());
    ProtocolState protocol;
    protocol.Opened("run");
    RunEnd end(&protocol, &waiting_);
    EXPECT_FALSE(end.ended());
    EXPECT_FALSE(end.completed());
    EXPECT_EQ(end.End(c.cause, c.why).code(), c.heard);
    EXPECT_TRUE(end.ended());
    EXPECT_EQ(end.completed(), c.cause == Cause::kCompleted);
    EXPECT_STREQ(end.name(), c.name);
    EXPECT_EQ(ExitCodeFor(end.outcome()), c.exit_code);
    EXPECT_EQ(end.outcome().message(), c.why.message());
    EXPECT_EQ(protocol.state(), c.state);
    EXPECT_EQ(end.peer_started_again(), c.cause == Cause::kPeerStartedAgain);
  }
}

TEST_F(RunEndTest, ThePeerHearsNothingOfWhatFailedInside) {
  EXPECT_EQ(end_.End(Cause::kOwnFailure, absl::InvalidArgumentError("row 7")).message(),
            "the label party failed; its own log says why");
  const absl::Status halt = end_.End(Cause::kOwnFailure, AsHalt(absl::ResourceExhaustedError("AUC 0.9 on batch 3")));
  EXPECT_EQ(halt.message(), "release gate: halted the run");
  EXPECT_TRUE(IsHalt(halt));
}

TEST_F(RunEndTest, TheFirstEndCounts) {
  EXPECT_FALSE(end_.End(Cause::kPeer, absl::UnavailableError("first")).ok());
  EXPECT_TRUE(end_.End(Cause::kCompleted, absl::OkStatus()).ok());
  EXPECT_EQ(end_.outcome().message(), "first");
  EXPECT_FALSE(end_.completed());
  EXPECT_EQ(protocol_.state(), State::kEnded);
}

TEST_F(RunEndTest, WhatHasNotFailedGoesOn) {
  EXPECT_TRUE(end_.EndUnlessOk(absl::OkStatus()).ok());
  EXPECT_FALSE(end_.ended());
  EXPECT_EQ(protocol_.state(), State::kTraining);
  EXPECT_TRUE(absl::IsInternal(end_.EndUnlessOk(absl::DataLossError("disk"))));
  EXPECT_TRUE(end_.ended());
}

TEST_F(RunEndTest, ACompleteRunThatCannotBePutAwayIsNone) {
  ASSERT_TRUE(end_.End(Cause::kCompleted, absl::OkStatus()).ok());
  end_.Amend(absl::OkStatus());
  EXPECT_TRUE(end_.completed());
  end_.Amend(absl::InternalError("the disk is full"));
  EXPECT_FALSE(end_.completed());
  EXPECT_EQ(end_.outcome().message(), "the disk is full");
  EXPECT_EQ(protocol_.state(), State::kEnded);
}

TEST_F(RunEndTest, AnErrorBeforeTheRunIsPutAwayStaysTheOutcome) {
  EXPECT_FALSE(end_.End(Cause::kPeer, absl::UnavailableError("gone")).ok());
  end_.Amend(absl::InternalError("the disk is full"));
  EXPECT_EQ(end_.outcome().message(), "gone");
}

TEST_F(RunEndTest, TheOwnVerdictFailsACompleteRunInTheLedgerAlone) {
  end_.SetOwnVerdict(absl::InvalidArgumentError("labels: all alike"));
  EXPECT_TRUE(end_.End(Cause::kCompleted, absl::OkStatus()).ok());
  EXPECT_STREQ(end_.name(), "failed");
  EXPECT_TRUE(end_.completed());
}

TEST_F(RunEndTest, APeerMayStartAgainAfterTheRunIsComplete) {
  ASSERT_TRUE(end_.End(Cause::kCompleted, absl::OkStatus()).ok());
  EXPECT_TRUE(absl::IsUnavailable(end_.End(Cause::kPeerStartedAgain, PeerStartedAgain("the peer"))));
  EXPECT_TRUE(end_.peer_started_again());
  EXPECT_TRUE(end_.completed());
  EXPECT_EQ(protocol_.state(), State::kCompleted);
}

using ::testing::HasSubstr;
using State = ProtocolState::State;

v1::Deadlines Connect120() {
  v1::Deadlines deadlines;
  deadlines.set_connect_seconds(120);
  return deadlines;
}

class PeerPresenceTest : public ::testing::Test {
 protected:
  PeerPresenceTest() {
    deadlines_.set_alignment_chunk_seconds(130);
    deadlines_.set_step_seconds(10);
    deadlines_.set_max_outage_seconds(0);
  }
  std::string LogOfCheck(State state) {
    ::testing::internal::CaptureStderr();
    presence_.CheckHeard(state).IgnoreError();
    return ::testing::internal::GetCapturedStderr();
  }

  v1::Deadlines deadlines_ = Connect120();
  SteadyTime now_;
  PeerPresence presence_{&deadlines_, [this] { return now_; }};
};

TEST_F(PeerPresenceTest, SilenceIsMeasuredByTheStatesDeadline) {
  for (const State state : {State::kWaiting, State::kOpened, State::kAligning, State::kAligned, State::kTraining}) {
    EXPECT_TRUE(presence_.CheckHeard(state).ok());
  }
  now_ += std::chrono::seconds(11);
  for (const State state : {State::kWaiting, State::kAligning, State::kAligned}) {
    EXPECT_TRUE(presence_.CheckHeard(state).ok());
  }
  for (const State state : {State::kOpened, State::kTraining}) {
    const absl::Status silence = presence_.CheckHeard(state);
    EXPECT_EQ(silence.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(silence.message()), HasSubstr("within 10s: it is silent"));
  }
  now_ += std::chrono::seconds(110);
  EXPECT_FALSE(presence_.CheckHeard(State::kWaiting).ok());
  EXPECT_TRUE(presence_.CheckHeard(State::kAligning).ok());
  presence_.Heard();
  EXPECT_TRUE(presence_.CheckHeard(State::kTraining).ok());
}

TEST_F(PeerPresenceTest, SaysEveryTenSecondsThatNobodyHasOpenedARun) {
  EXPECT_EQ(LogOfCheck(State::kWaiting), "");
  now_ += std::chrono::seconds(10);
  EXPECT_THAT(LogOfCheck(State::kWaiting),
              HasSubstr("INFO waiting for the non-label party to connect and open a run: 10s already, at most 2m\n"));
  EXPECT_EQ(LogOfCheck(State::kWaiting), "");
  now_ += std::chrono::seconds(25);
  EXPECT_EQ(LogOfCheck(State::kTraining), "");
  EXPECT_THAT(LogOfCheck(State::kWaiting), HasSubstr(": 35s already, at most 2m\n"));
}

TEST_F(PeerPresenceTest, BetweenStreamsAPeerMayBeGoneUnseen) {
  deadlines_.set_max_outage_seconds(60);
  now_ += std::chrono::seconds(30);
  EXPECT_TRUE(presence_.CheckHeard(State::kTraining).ok());
  presence_.StreamOpened();
  EXPECT_FALSE(presence_.CheckHeard(State::kTraining).ok());
  presence_.StreamClosed();
  EXPECT_TRUE(presence_.CheckHeard(State::kTraining).ok());
  now_ += std::chrono::seconds(31);
  EXPECT_FALSE(presence_.CheckHeard(State::kTraining).ok());
}

TEST_F(PeerPresenceTest, BeforeARunIsOpenNoConnectionIsLost) {
  deadlines_.set_max_outage_seconds(600);
  presence_.ConnectionLost();
  now_ += std::chrono::seconds(200);
  const absl::Status silence = presence_.CheckHeard(State::kWaiting);
  EXPECT_THAT(std::string(silence.message()), HasSubstr("it is silent"));
}

}  // namespace

}  // namespace splitveil
