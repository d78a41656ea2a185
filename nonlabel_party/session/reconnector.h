// What the non-label party does about a stop, and about a lost connection: wait for the label party, then repeat what
// failed.
#ifndef SPLITVEIL_NONLABEL_PARTY_SESSION_RECONNECTOR_H_
#define SPLITVEIL_NONLABEL_PARTY_SESSION_RECONNECTOR_H_

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

#include "common/process/exit_code.h"
#include "common/process/steady_time.h"
#include "nonlabel_party/session/label_party_peer.h"

namespace splitveil {

// Code that works for long asks between two pieces of work. If the answer is yes, it returns StoppedOnRequest() like
// any other error, and the run ends with that. Thread-safe.
class StopRequest {
 public:
  // `stop`: whether the process is to stop; from any thread.
  explicit StopRequest(bool (*stop)()) : stop_(stop) {}

  // Asks. Once it has been yes it stays so.
  bool Asked();
  // Whether an earlier Asked was yes; asks nobody.
  bool seen() const { return seen_; }
  // Asks: StoppedOnRequest() for yes, else OK.
  absl::Status Check() { return Asked() ? StoppedOnRequest() : absl::OkStatus(); }

 private:
  bool (*const stop_)();
  std::atomic<bool> seen_{false};
};

// Asks `stop` every 100 ms on a thread of its own and calls `cancel` there, once, when it first says yes: a stop flag
// set by a signal can wake nobody. Use from one thread.
class StopWatcher {
 public:
  // `stop`: not owned; must outlive this. Errors: Internal where no thread can be started.
  static absl::StatusOr<std::unique_ptr<StopWatcher>> Create(StopRequest* stop, std::function<void()> cancel);
  ~StopWatcher() { Finish(); }
  StopWatcher(const StopWatcher&) = delete;
  StopWatcher& operator=(const StopWatcher&) = delete;

  // Ends the watch, after a `cancel` under way; whether `cancel` was called.
  bool Finish() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  StopWatcher(StopRequest* stop, std::function<void()> cancel);
  void Watch() ABSL_LOCKS_EXCLUDED(mutex_);

  StopRequest* const stop_;
  const std::function<void()> cancel_;
  WakeableSleep sleep_;  // The thread's.
  absl::Mutex mutex_;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // Last: uses all above.
};

// Rides out interruptions: code that finds the label party gone calls AwaitReturn and, on OK, repeats what failed;
// Reached once that has succeeded. From the first failure to the next success is one interruption, however many
// attempts it takes; it is logged and recorded, and ends the run where it lasts longer than agreed. Pauses grow
// exponentially up to a few seconds, and are random, so that parties that lost each other together do not come back
// together. Not thread-safe.
class Reconnector {
 public:
  struct Options {
    absl::Duration max_outage;  // Deadlines.max_outage_seconds.
    // Waits until the label party can be reached. Errors: Unavailable at the deadline; a refusal where somebody else
    // answers; any where a stop was asked for. Empty: what is lost is lost.
    std::function<absl::Status(SteadyTime deadline)> reach;
    StopRequest* stop = nullptr;  // Not owned; must outlive this.
    // Told of each interruption once it is over, or given up ("interrupted"), and of stalls ("stalled"): its length.
    // May be empty.
    std::function<absl::Status(const char* kind, const std::string& detail)> record;
  };
  explicit Reconnector(Options options) : options_(std::move(options)) {}

  // Whether `status` says that the connection is lost, and not what the label party decided.
  static bool IsLost(const absl::Status& status) {
    return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
  }

  // An interruption has begun, unless it had; `lost`: IsLost.
  void Lost(const absl::Status& lost);
  // Lost, then waits until the label party can be reached. Errors: Unavailable once the interruption has lasted for
  // longer than agreed; StoppedOnRequest; a refusal; those of the record.
  absl::Status AwaitReturn(const absl::Status& lost);
  // Why the label party is waited for no longer; OK: it is, where it is lost.
  const absl::Status& given_up() const { return given_up_; }
  // A call has succeeded, or a message has come. Errors: those of the record.
  absl::Status Reached();
  // A message of a stream, or the answer to a call of every batch, has come after so many seconds, the connection held:
  // logged and recorded where that was a stall. Errors: those of the record.
  absl::Status Waited(double seconds);

  // The result of `call`, which is made again for as long as it finds the connection lost. `call` returns a Status or a
  // StatusOr, and does the same however often it is made.
  template <typename Call>
  auto Persist(const Call& call) -> decltype(call()) {
    while (true) {
      auto result = call();
      if (!IsLost(StatusOf(result))) {
        const absl::Status recorded = StatusOf(result).ok() ? Reached() : absl::OkStatus();
        return recorded.ok() ? std::move(result) : decltype(call())(recorded);
      }
      if (absl::Status back = AwaitReturn(StatusOf(result)); !back.ok()) {
        return back;
      }
    }
  }

 private:
  static const absl::Status& StatusOf(const absl::Status& status) { return status; }
  template <typename Result>
  static const absl::Status& StatusOf(const Result& result) {
    return result.status();
  }

  // Until `deadline` or the end of the next pause, whichever comes first.
  void Pause(SteadyTime deadline);
  absl::Status GiveUp(const absl::Status& lost);

  const Options options_;
  std::optional<SteadyTime> since_;  // Of the interruption under way.
  absl::Duration pause_;
  absl::Status given_up_;
  UsualWait answers_;
};

// Makes a call again that found the connection lost; the label party answers a repeated call as it did before. A
// training stream that breaks is opened once more: all batches that are not answered as a whole are sent again, the
// same bytes, and what has come of their answers before is skipped. For that it keeps the activations in flight.
//
// Not made again: Align, Evaluate, EmbedAuxiliary and GuessAttributes, whose streams are the caller's to repeat; Close
// of a run that is given up, or that says goodbye. Not thread-safe.
class ResumingPeer final : public LabelPartyPeer {
 public:
  // Not owned; both must outlive this and its streams.
  ResumingPeer(LabelPartyPeer* peer, Reconnector* reconnector) : peer_(peer), reconnector_(reconnector) {}

  absl::StatusOr<v1::OpenResponse> Open(const v1::OpenRequest& request) override;
  absl::StatusOr<std::unique_ptr<AlignmentStream>> Align() override { return peer_->Align(); }
  absl::StatusOr<std::vector<v1::MeasureLinkResponse>> MeasureLink(const v1::MeasureLinkRequest& request,
                                                                   int calls) override;
  absl::StatusOr<v1::StartResponse> Start(const v1::StartRequest& request) override;
  absl::StatusOr<std::unique_ptr<TrainingStream>> Train() override;
  absl::StatusOr<std::unique_ptr<EvaluationStream>> Evaluate() override { return peer_->Evaluate(); }
  absl::StatusOr<std::unique_ptr<EmbeddingStream>> EmbedAuxiliary() override { return peer_->EmbedAuxiliary(); }
  absl::StatusOr<std::unique_ptr<GuessStream>> GuessAttributes(const v1::GuessAttributesRequest& request) override {
    return peer_->GuessAttributes(request);
  }
  absl::StatusOr<v1::ScoreBatchResponse> ScoreBatch(const v1::ScoreBatchRequest& request) override;
  absl::StatusOr<v1::AuxiliaryLabelsResponse> AuxiliaryLabels(const v1::AuxiliaryLabelsRequest& request) override;
  absl::StatusOr<v1::ScoreExamplesResponse> ScoreExamples(const v1::ScoreExamplesRequest& request) override;
  absl::Status Close(const v1::CloseRequest& request) override;

 private:
  LabelPartyPeer* const peer_;
  Reconnector* const reconnector_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_NONLABEL_PARTY_SESSION_RECONNECTOR_H_
