// Every message in every state.
#include "label_party/session/protocol_state.h"

#include <gtest/gtest.h>
#include <set>
#include <string>
#include <utility>

namespace splitveil {
namespace {

using State = ProtocolState::State;
using Message = ProtocolState::Message;

constexpr State kStates[] = {State::kWaiting,  State::kOpened,    State::kAligning, State::kAligned,
                             State::kTraining, State::kCompleted, State::kFarewell, State::kEnded};
constexpr Message kMessages[] = {Message::kOpen,           Message::kAlign,           Message::kMeasureLink,
                                 Message::kStart,          Message::kTrain,           Message::kEvaluate,
                                 Message::kScoreBatch,     Message::kAuxiliaryLabels, Message::kScoreExamples,
                                 Message::kEmbedAuxiliary, Message::kGuessAttributes, Message::kClose,
                                 Message::kGiveUp};

const std::set<std::pair<State, Message>> kAccepted = {
    {State::kWaiting, Message::kOpen},
    {State::kOpened, Message::kAlign},
    {State::kOpened, Message::kGiveUp},
    {State::kAligning, Message::kAlign},
    {State::kAligning, Message::kGiveUp},
    {State::kAligned, Message::kAlign},
    {State::kAligned, Message::kMeasureLink},
    {State::kAligned, Message::kStart},
    {State::kAligned, Message::kGiveUp},
    {State::kTraining, Message::kTrain},
    {State::kTraining, Message::kEvaluate},
    {State::kTraining, Message::kScoreBatch},
    {State::kTraining, Message::kAuxiliaryLabels},
    {State::kTraining, Message::kScoreExamples},
    {State::kTraining, Message::kClose},
    {State::kTraining, Message::kGiveUp},
    {State::kTraining, Message::kEmbedAuxiliary},
    {State::kTraining, Message::kGuessAttributes},
};

const std::set<std::pair<State, Message>> kRepeated = {
    {State::kOpened, Message::kOpen},     {State::kAligned, Message::kOpen},   {State::kTraining, Message::kStart},
    {State::kCompleted, Message::kClose}, {State::kFarewell, Message::kClose},
};
const std::set<State> kTakenUp = {State::kOpened, State::kAligning, State::kAligned, State::kTraining,
                                  State::kCompleted};

void Reach(State state, ProtocolState& protocol) {
  if (state >= State::kOpened) {
    protocol.Opened("run");
  }
  if (state >= State::kAligning) {
    protocol.Aligning();
  }
  if (state >= State::kAligned) {
    protocol.Aligned();
  }
  if (state >= State::kTraining) {
    protocol.Training();
  }
  if (state == State::kCompleted || state == State::kFarewell) {
    protocol.Completed();
  }
  if (state == State::kFarewell) {
    protocol.Farewell();
  }
  if (state == State::kEnded) {
    protocol.Ended();
  }
}

// What `message` of `run_id` is refused with; OK: accepted.
absl::StatusCode ExpectedCode(State state, Message message, const std::string& run_id) {
  if (kAccepted.count({state, message}) > 0) {
    return message == Message::kOpen || run_id == "run" ? absl::StatusCode::kOk : absl::StatusCode::kInvalidArgument;
  }
  if (message == Message::kOpen) {
    return absl::StatusCode::kFailedPrecondition;
  }
  if (state == State::kWaiting) {
    return absl::StatusCode::kAborted;
  }
  if (state >= State::kCompleted) {
    return absl::StatusCode::kCancelled;
  }
  return run_id == "run" ? absl::StatusCode::kFailedPrecondition : absl::StatusCode::kInvalidArgument;
}

TEST(ProtocolStateTest, EveryMessageInEveryState) {
  for (const State state : kStates) {
    for (const Message message : kMessages) {
      SCOPED_TRACE(::testing::Message() << "state " << static_cast<int>(state) << " message "
                                        << static_cast<int>(message));
      ProtocolState protocol;
      Reach(state, protocol);
      ASSERT_EQ(protocol.state(), state);
      EXPECT_EQ(protocol.Check(message).code(), ExpectedCode(state, message, "run"));
      for (const char* run_id : {"run", "another", ""}) {
        EXPECT_EQ(protocol.Check(message, run_id).code(), ExpectedCode(state, message, run_id)) << run_id;
      }
      EXPECT_EQ(protocol.MayRepeat(message), kRepeated.count({state, message}) > 0);
      EXPECT_EQ(protocol.MayBeTakenUp(), kTakenUp.count(state) > 0);
      EXPECT_EQ(protocol.state(), state);  // Asking changes nothing.
    }
  }
}

TEST(ProtocolStateTest, StartMayNotComeAgainAfterTheFirstStep) {
  ProtocolState protocol;
  Reach(State::kTraining, protocol);
  protocol.Stepped();
  EXPECT_FALSE(protocol.MayRepeat(Message::kStart));
  EXPECT_EQ(protocol.state(), State::kTraining);
}

TEST(ProtocolStateTest, ACompleteRunEndsWhereItCannotBePutAway) {
  ProtocolState protocol;
  Reach(State::kCompleted, protocol);
  protocol.Ended();
  EXPECT_EQ(protocol.state(), State::kEnded);
  EXPECT_FALSE(protocol.MayRepeat(Message::kClose));
}

TEST(ProtocolStateTest, RefusalsNameTheCallAndWhatWasExpected) {
  ProtocolState protocol;
  EXPECT_EQ(protocol.Check(Message::kStart, "run").message(), "Start: no run is open");
  protocol.Opened("run");
  EXPECT_EQ(protocol.Check(Message::kOpen).message(), "Open: a run is under way or has ended");
  EXPECT_EQ(protocol.Check(Message::kTrain, "run").message(), "Train: out of order in this state of the run");
  EXPECT_EQ(protocol.Check(Message::kGiveUp, "another").message(), "Close: run_id: not the id of the open run");
  protocol.Ended();
  EXPECT_EQ(protocol.Check(Message::kClose, "run").message(), "the label party has ended the run");
}

TEST(ProtocolStateTest, AnAlignmentThatIsLostLeadsBackAndMayRestart) {
  ProtocolState protocol;
  Reach(State::kAligning, protocol);
  protocol.AlignmentLost();
  EXPECT_EQ(protocol.state(), State::kOpened);
  protocol.Aligning();
  protocol.Aligned();
  EXPECT_EQ(protocol.state(), State::kAligned);
  protocol.Aligning();
  EXPECT_EQ(protocol.state(), State::kAligning);
  protocol.Aligned();
  protocol.Training();
  protocol.AlignmentLost();
  EXPECT_EQ(protocol.state(), State::kTraining);
}

TEST(ProtocolStateTest, AnAlignmentMadeBeforeIsNotRepeated) {
  ProtocolState protocol;
  protocol.Opened("run");
  protocol.Aligned();
  EXPECT_EQ(protocol.Check(Message::kAlign, "run").code(), absl::StatusCode::kFailedPrecondition);
}

TEST(ProtocolStateTest, NothingLeavesTheEnd) {
  ProtocolState protocol;
  Reach(State::kEnded, protocol);
  protocol.AlignmentLost();
  protocol.Aligning();
  protocol.Aligned();
  protocol.Training();
  protocol.Completed();
  protocol.Farewell();
  EXPECT_EQ(protocol.state(), State::kEnded);
  EXPECT_EQ(protocol.run_id(), "run");
}

TEST(ProtocolStateTest, ARunMayEndBeforeItIsOpened) {
  ProtocolState protocol;
  protocol.Ended();
  EXPECT_EQ(protocol.Check(Message::kOpen).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(protocol.Check(Message::kAlign).code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace splitveil
