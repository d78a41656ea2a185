#include "nonlabel_party/session/answer_protocol.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"

#include "common/process/exit_code.h"

namespace splitveil {
namespace {

using State = AnswerProtocol::State;
using Answer = AnswerProtocol::Answer;

struct Move {
  State from;
  Answer answer;
  State to;
};

// Every answer that is accepted; all others are refused.
constexpr Move kMoves[] = {
    {State::kNew, Answer::kOpened, State::kOpen},
    {State::kOpen, Answer::kAligned, State::kAligned},
    {State::kAligned, Answer::kStarted, State::kUntrained},
    {State::kAligned, Answer::kContinued, State::kLearning},

    {State::kUntrained, Answer::kEvaluated, State::kUntrained},  // Progressive validation.
    {State::kUntrained, Answer::kClosed, State::kClosed},        // Nothing but predicted.
    {State::kUntrained, Answer::kSlice, State::kInBatch},
    {State::kUntrained, Answer::kBatch, State::kLearning},
    {State::kUntrained, Answer::kFrozen, State::kFrozen},

    {State::kLearning, Answer::kSlice, State::kInBatch},
    {State::kLearning, Answer::kBatch, State::kLearning},
    {State::kLearning, Answer::kFrozen, State::kFrozen},
    {State::kLearning, Answer::kEvaluated, State::kLearning},
    {State::kLearning, Answer::kEnough, State::kTrained},
    {State::kLearning, Answer::kClosed, State::kClosed},

    {State::kInBatch, Answer::kSlice, State::kInBatch},
    {State::kInBatch, Answer::kBatch, State::kLearning},

    {State::kFrozen, Answer::kFrozen, State::kFrozen},
    {State::kFrozen, Answer::kEvaluated, State::kFrozen},
    {State::kFrozen, Answer::kEnough, State::kTrained},
    {State::kFrozen, Answer::kClosed, State::kClosed},

    {State::kTrained, Answer::kClosed, State::kClosed},
};

absl::Status Refusal(absl::string_view text) { return AsRefusal(absl::InvalidArgumentError(text)); }

absl::Status WhyNot(State state, Answer answer) {
  constexpr absl::string_view kOneAnswer = "gradients: expected slices of one answer, its hint in the last";
  constexpr absl::string_view kNoGradients =
      "gradients: the label party sent some although it has frozen the bottom model; once frozen, no answer may have "
      "any";
  // In training the peer alone decides what comes next, so a wrong answer is its fault and a refusal. Elsewhere this
  // party has asked out of turn: an internal error.
  const bool in_training =
      state == State::kUntrained || state == State::kLearning || state == State::kInBatch || state == State::kFrozen;
  if (in_training) {
    switch (answer) {
      case Answer::kSlice:
      case Answer::kBatch:
        return Refusal(kNoGradients);  // Refused in kFrozen alone.
      case Answer::kHintTooEarly:
        return Refusal(state == State::kFrozen ? kNoGradients : kOneAnswer);
      case Answer::kFrozen:
        return Refusal(kOneAnswer);  // Refused in kInBatch alone.
      case Answer::kFrozenWithGradients:
        return Refusal(state == State::kInBatch ? kOneAnswer : kNoGradients);
      default:
        break;
    }
  }
  if (state == State::kUntrained && answer == Answer::kEnough) {
    return Refusal("evaluation: expected training to follow, found it stopped");
  }
  return absl::InternalError(
      absl::StrCat("protocol: no such answer is due in ", Name(state), ", found ", Name(answer)));
}

}  // namespace

absl::Status AnswerProtocol::Take(Answer answer) {
  // A table and no code: what is not listed is refused, so a forgotten case fails closed.
  const auto* const move = std::find_if(std::begin(kMoves), std::end(kMoves),
                                        [&](const Move& each) { return each.from == state_ && each.answer == answer; });
  if (move == std::end(kMoves)) {
    return WhyNot(state_, answer);
  }
  state_ = move->to;
  return absl::OkStatus();
}

Answer AnswerProtocol::Classify(const v1::CutGradients& message, bool last) {
  if (message.frozen()) {
    return message.has_gradients() ? Answer::kFrozenWithGradients : Answer::kFrozen;
  }
  if (last) {
    return Answer::kBatch;
  }
  return message.has_hint() || message.hint_rows_size() > 0 ? Answer::kHintTooEarly : Answer::kSlice;
}

absl::string_view Name(AnswerProtocol::State state) {
  constexpr absl::string_view kNames[] = {"kNew",     "kOpen",   "kAligned", "kUntrained", "kLearning",
                                          "kInBatch", "kFrozen", "kTrained", "kClosed"};
  return kNames[static_cast<int>(state)];
}

absl::string_view Name(AnswerProtocol::Answer answer) {
  constexpr absl::string_view kNames[] = {"kOpened", "kAligned",      "kStarted", "kContinued",           "kSlice",
                                          "kBatch",  "kHintTooEarly", "kFrozen",  "kFrozenWithGradients", "kEvaluated",
                                          "kEnough", "kClosed"};
  return kNames[static_cast<int>(answer)];
}

}  // namespace splitveil
