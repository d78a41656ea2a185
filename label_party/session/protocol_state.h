// Which message may come in which state of a run at the label party.
#ifndef SPLITVEIL_LABEL_PARTY_SESSION_PROTOCOL_STATE_H_
#define SPLITVEIL_LABEL_PARTY_SESSION_PROTOCOL_STATE_H_

#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace splitveil {

// Accepts or refuses; does no work. What a message must hold besides is checked where it is used: which batch or
// evaluation is due, by TrainingOrder.
//
//   message                                  accepted in                    then
//   Open                                     kWaiting                       kOpened
//   Align                                    kOpened to kAligned            kAligning, and kAligned once it succeeds
//   MeasureLink                              kAligned                       the same
//   Start                                    kAligned                       kTraining; kPredicting with mode PREDICT
//   Evaluate                                 kPredicting                    the same
//   Train, Evaluate, ScoreBatch,             kTraining                      the same
//     AuxiliaryLabels, ScoreExamples,
//     EmbedAuxiliary, GuessAttributes
//   Close of a complete run                  kPredicting, kTraining         kCompleted, and kFarewell once the peer
//                                                                           says that it has heard of it
//   Close of one that the peer gives up      kOpened to kTraining           kEnded
//   (failure, silence, stop)                 every state                    kEnded
//
// An answer may be lost with the connection. What may come once more for that:
//   the same Open                            kOpened, kAligned
//   the same Start                           kPredicting; kTraining, before the first step
//   Close of a complete run                  kCompleted, kFarewell
// (Train and Evaluate: ReplayCache, TrainingOrder.) Align restarts with different keys: in kAligning, since the
// connection of the earlier one may be lost without a sign, and in kAligned, since the peer may have lost its last
// message; not if a cached alignment is used. An alignment whose connection is known to be lost leads back to kOpened.
//
// Thread-safe: scores are judged while a step is under way.
class ProtocolState {
 public:
  enum class State {
    kWaiting,
    kOpened,
    kAligning,
    kAligned,
    kPredicting,  // Nothing is released in it.
    kTraining,
    kCompleted,  // The peer may not know of it yet.
    kFarewell,   // It does.
    kEnded,      // And is not complete.
  };
  enum class Message {
    kOpen,
    kAlign,
    kMeasureLink,
    kStart,
    kTrain,
    kEvaluate,
    kScoreBatch,
    kAuxiliaryLabels,
    kScoreExamples,
    kEmbedAuxiliary,
    kGuessAttributes,
    kClose,
    kGiveUp,  // Close, without the claim that the run is complete.
  };

  // Whether `message` of the open run may come now. Errors: what Ended was given once the run has ended, Cancelled
  // if it is complete; Aborted if no run is open; FailedPrecondition if another is (Open), or out of order.
  absl::Status Check(Message message) const;
  // The same for a message that names its run: InvalidArgument if that is a different one.
  absl::Status Check(Message message, const std::string& run_id) const;
  // What the peer hears of a run that has ended, whatever it waits for: what Ended was given, or else Cancelled.
  absl::Status HowItEnded() const;
  // Whether `message`, which was accepted, may come once more: it gets the answer that it got.
  bool MayRepeat(Message message) const;
  // Whether another process of the peer's may take the run up, from a checkpoint: it is under way or, as far as the
  // peer knows, may be.
  bool MayBeTakenUp() const;

  // Transitions, after their message has been checked and done its work. None leads back but those of an alignment, nor
  // from the end but to kFarewell, and from kCompleted to kEnded if what is left to do fails.
  void Opened(std::string run_id);
  void Aligning();
  void AlignmentLost();
  void Aligned() { Enter(State::kAligned); }
  void Predicting() { Enter(State::kPredicting); }
  void Training() { Enter(State::kTraining); }
  void Stepped();  // The first step of kTraining is done.
  void Completed() { Enter(State::kCompleted); }
  void Farewell() { Enter(State::kFarewell); }
  // `heard`: what every later message is answered with, no OK.
  void Ended(absl::Status heard = absl::CancelledError("the label party has ended the run"));

  State state() const;
  // Empty before Opened.
  std::string run_id() const;

 private:
  absl::Status Heard() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckOf(Message message, const std::string& run_id) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Enter(State state);

  mutable absl::Mutex mutex_;
  State state_ ABSL_GUARDED_BY(mutex_) = State::kWaiting;
  bool aligns_ ABSL_GUARDED_BY(mutex_) = false;  // An alignment of this run has begun.
  bool stepped_ ABSL_GUARDED_BY(mutex_) = false;
  std::string run_id_ ABSL_GUARDED_BY(mutex_);
  absl::Status heard_ ABSL_GUARDED_BY(mutex_);  // OK: as of a run that is complete.
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_SESSION_PROTOCOL_STATE_H_
