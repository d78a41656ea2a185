// What the label party may answer when: every answer in every state.
#include "nonlabel_party/session/answer_protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/process/exit_code.h"

namespace splitveil::testing {
namespace {

using ::testing::HasSubstr;
using State = AnswerProtocol::State;
using Answer = AnswerProtocol::Answer;

constexpr Answer kAnswers[] = {
    Answer::kOpened,    Answer::kAligned,      Answer::kStarted, Answer::kSlice,
    Answer::kBatch,     Answer::kHintTooEarly, Answer::kFrozen,  Answer::kFrozenWithGradients,
    Answer::kEvaluated, Answer::kEnough,       Answer::kClosed};

// Answers that lead to each state from the start.
const std::vector<std::pair<State, std::vector<Answer>>>& Paths() {
  static const auto* const paths = new std::vector<std::pair<State, std::vector<Answer>>>{
      {State::kNew, {}},
      {State::kOpen, {Answer::kOpened}},
      {State::kAligned, {Answer::kOpened, Answer::kAligned}},
      {State::kUntrained, {Answer::kOpened, Answer::kAligned, Answer::kStarted}},
      {State::kLearning, {Answer::kOpened, Answer::kAligned, Answer::kStarted, Answer::kBatch}},
      {State::kInBatch, {Answer::kOpened, Answer::kAligned, Answer::kStarted, Answer::kSlice}},
      {State::kFrozen, {Answer::kOpened, Answer::kAligned, Answer::kStarted, Answer::kFrozen}},
      {State::kTrained, {Answer::kOpened, Answer::kAligned, Answer::kStarted, Answer::kBatch, Answer::kEnough}},
      {State::kClosed, {Answer::kOpened, Answer::kAligned, Answer::kStarted, Answer::kBatch, Answer::kClosed}},
  };
  return *paths;
}

AnswerProtocol In(State state) {
  AnswerProtocol protocol;
  for (const auto& [reached, path] : Paths()) {
    for (size_t i = 0; reached == state && i < path.size(); ++i) {
      EXPECT_TRUE(protocol.Take(path[i]).ok());
    }
  }
  EXPECT_EQ(protocol.state(), state);
  return protocol;
}

// One letter for each answer of kAnswers: where it leads (N, O, A, U, L, B for kInBatch, F, T, C); r: refused as the
// label party's fault; -: out of turn, this party's own.
std::string Row(State state) {
  constexpr char kLetters[] = "NOAULBFTC";
  std::string row;
  for (Answer answer : kAnswers) {
    AnswerProtocol protocol = In(state);
    const absl::Status status = protocol.Take(answer);
    if (status.ok()) {
      row += kLetters[static_cast<int>(protocol.state())];
      continue;
    }
    EXPECT_EQ(protocol.state(), state) << Name(answer);
    row += ExitCodeFor(status) == ExitCode::kRefused ? 'r' : '-';
    EXPECT_EQ(absl::IsInternal(status), row.back() == '-') << status;
  }
  return row;
}

TEST(AnswerProtocolTest, EveryAnswerInEveryState) {
  // Opened, aligned, started | slice, batch, early hint, frozen, frozen with gradients | evaluated, enough | closed.
  const std::map<State, std::string> expected = {
      {State::kNew, "O----------"},        //
      {State::kOpen, "-A---------"},       //
      {State::kAligned, "--U--------"},    //
      {State::kUntrained, "---BLrFrUrC"},  //
      {State::kLearning, "---BLrFrLTC"},   //
      {State::kInBatch, "---BLrrr---"},    //
      {State::kFrozen, "---rrrFrFTC"},     //
      {State::kTrained, "----------C"},    //
      {State::kClosed, "-----------"},
  };
  ASSERT_EQ(expected.size(), Paths().size());
  for (const auto& [state, row] : expected) {
    EXPECT_EQ(Row(state), row) << Name(state);
  }
}

TEST(AnswerProtocolTest, RefusalsSayWhatWasExpected) {
  const auto why = [](State state, Answer answer) { return std::string(In(state).Take(answer).message()); };
  EXPECT_THAT(why(State::kUntrained, Answer::kEnough), HasSubstr("expected training to follow"));
  EXPECT_THAT(why(State::kInBatch, Answer::kFrozen), HasSubstr("slices of one answer"));
  EXPECT_THAT(why(State::kInBatch, Answer::kFrozenWithGradients), HasSubstr("slices of one answer"));
  EXPECT_THAT(why(State::kLearning, Answer::kHintTooEarly), HasSubstr("its hint in the last"));
  EXPECT_THAT(why(State::kLearning, Answer::kFrozenWithGradients), HasSubstr("once frozen"));
  EXPECT_THAT(why(State::kFrozen, Answer::kBatch), HasSubstr("once frozen"));
  EXPECT_THAT(why(State::kFrozen, Answer::kHintTooEarly), HasSubstr("once frozen"));
  EXPECT_THAT(why(State::kTrained, Answer::kBatch), HasSubstr("kTrained, found kBatch"));
}

TEST(AnswerProtocolTest, ClassifiesGradients) {
  v1::CutGradients gradients;
  gradients.mutable_gradients();
  EXPECT_EQ(AnswerProtocol::Classify(gradients, true), Answer::kBatch);
  EXPECT_EQ(AnswerProtocol::Classify(gradients, false), Answer::kSlice);

  v1::CutGradients hinted = gradients;
  hinted.add_hint_rows(3);
  EXPECT_EQ(AnswerProtocol::Classify(hinted, true), Answer::kBatch);
  EXPECT_EQ(AnswerProtocol::Classify(hinted, false), Answer::kHintTooEarly);
  hinted.clear_hint_rows();
  hinted.mutable_hint();
  EXPECT_EQ(AnswerProtocol::Classify(hinted, false), Answer::kHintTooEarly);

  v1::CutGradients frozen;
  frozen.set_frozen(true);
  EXPECT_EQ(AnswerProtocol::Classify(frozen, true), Answer::kFrozen);
  EXPECT_EQ(AnswerProtocol::Classify(frozen, false), Answer::kFrozen);
  frozen.mutable_gradients();
  EXPECT_EQ(AnswerProtocol::Classify(frozen, false), Answer::kFrozenWithGradients);
}

}  // namespace
}  // namespace splitveil::testing
