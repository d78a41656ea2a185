// What the label party may answer when.
#ifndef SPLITVEIL_NONLABEL_PARTY_SESSION_ANSWER_PROTOCOL_H_
#define SPLITVEIL_NONLABEL_PARTY_SESSION_ANSWER_PROTOCOL_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "splitveil/v1/split_training.pb.h"

namespace splitveil {

// The state of a run as this party sees it, moved on by the label party's answers. It does no work and holds no data:
// what an answer says (its rows, its numbers, its AUCs) is checked where it is used.
//
//   kNew ─kOpened─► kOpen ─kAligned─► kAligned ─kStarted─► kUntrained, or, where a broken run is continued,
//                                              ─kContinued─► kLearning
//
//   kUntrained, kLearning ─kSlice─► kInBatch ─kBatch─► kLearning    gradients slice by slice,
//   kUntrained, kLearning ─kBatch─► kLearning                       or of the whole batch,
//   kUntrained, kLearning ─kFrozen─► kFrozen                        or none any more
//
//   kLearning, kFrozen ─kEnough─► kTrained                          kEvaluated changes nothing
//   kUntrained, kLearning, kFrozen, kTrained ─kClosed─► kClosed
//
// Not thread-safe.
class AnswerProtocol {
 public:
  enum class State {
    kNew,        // Nothing has been answered.
    kOpen,       // The agreements are the same.
    kAligned,    // Both hold the aligned order.
    kUntrained,  // The joint seed is known; no batch has been learnt from.
    kLearning,   // Between two batches.
    kInBatch,    // Some slices of a batch's gradients have come, others are due.
    kFrozen,     // The label party's release gate has frozen the bottom model: no gradient comes any more.
    kTrained,    // The label party wants no further epoch.
    kClosed,
  };

  enum class Answer {
    kOpened,               // Of Open.
    kAligned,              // Of Align: its stream has ended well.
    kStarted,              // Of Start: of a new run,
    kContinued,            // and of one that goes on where it was interrupted.
    kSlice,                // Gradients of some rows of a batch; more are due.
    kBatch,                // The last gradients of a batch, or all of them.
    kHintTooEarly,         // A hint with gradients that are not the last of their batch.
    kFrozen,               // No gradients, for a whole batch.
    kFrozenWithGradients,  // Both at once.
    kEvaluated,            // Of Evaluate: training goes on.
    kEnough,               // Of Evaluate: no further epoch.
    kClosed,               // Of Close, for a complete run.
  };

  State state() const { return state_; }

  // Moves on. Errors, which leave the state as it is: a refusal (InvalidArgument) for an answer that the label party
  // alone decides on; Internal where this party has asked out of turn.
  absl::Status Take(Answer answer);

  // What this message of a Train stream is. `last`: no row of its batch is due after it.
  static Answer Classify(const v1::CutGradients& message, bool last);

 private:
  State state_ = State::kNew;
};

// For errors and tests: "kLearning".
absl::string_view Name(AnswerProtocol::State state);
absl::string_view Name(AnswerProtocol::Answer answer);

}  // namespace splitveil

#endif  // SPLITVEIL_NONLABEL_PARTY_SESSION_ANSWER_PROTOCOL_H_
