// How long a silent peer is waited for; interruptions end in the log of label_session_silence_test.cc.
#include "label_party/session/peer_presence.h"

#include <chrono>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>

namespace splitveil {
namespace {

using ::testing::HasSubstr;
using State = ProtocolState::State;

class PeerPresenceTest : public ::testing::Test {
 protected:
  PeerPresenceTest() {
    deadlines_.set_connect_seconds(120);
    deadlines_.set_alignment_chunk_seconds(130);
    deadlines_.set_step_seconds(10);
    deadlines_.set_max_outage_seconds(0);
  }

  v1::Deadlines deadlines_;
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
    EXPECT_THAT(std::string(silence.message()), HasSubstr("within 10s, found silence"));
  }
  now_ += std::chrono::seconds(110);
  EXPECT_FALSE(presence_.CheckHeard(State::kWaiting).ok());
  EXPECT_TRUE(presence_.CheckHeard(State::kAligning).ok());
  presence_.Heard();
  EXPECT_TRUE(presence_.CheckHeard(State::kTraining).ok());
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
  EXPECT_THAT(std::string(silence.message()), HasSubstr("found silence"));
}

}  // namespace
}  // namespace splitveil
