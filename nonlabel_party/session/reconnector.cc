#include "nonlabel_party/session/reconnector.h"

#include <algorithm>
#include <deque>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "common/status/status_macros.h"
#include "common/telemetry/log.h"
#include "common/transport/client_call.h"

namespace splitveil {
namespace {

// Soon enough for an operator, and no load.
constexpr absl::Duration kPeriod = absl::Milliseconds(100);

}  // namespace

bool StopRequest::Asked() {
  if (!seen_ && stop_()) {
    // Remembered: a stop that was seen stays one, whatever the flag says later.
    seen_ = true;
  }
  return seen_;
}

absl::StatusOr<std::unique_ptr<StopWatcher>> StopWatcher::Create(StopRequest* stop, std::function<void()> cancel) {
  try {
    return std::unique_ptr<StopWatcher>(new StopWatcher(stop, std::move(cancel)));
  } catch (const std::system_error& error) {
    return absl::InternalError(absl::StrCat("the watch for a stop: no thread could be started: ", error.what()));
  }
}

StopWatcher::StopWatcher(StopRequest* stop, std::function<void()> cancel)
    : stop_(stop), cancel_(std::move(cancel)), thread_([this] { Watch(); }) {}

bool StopWatcher::Finish() {
  if (thread_.joinable()) {
    {
      const absl::MutexLock lock(&mutex_);
      finished_ = true;
    }
    sleep_.Wake();
    thread_.join();
  }
  const absl::MutexLock lock(&mutex_);
  return cancelled_;
}

void StopWatcher::Watch() {
  while (true) {
    if (stop_->Asked()) {
      {
        const absl::MutexLock lock(&mutex_);
        // Set before the call: a thread that sees the stream end must know who ended it.
        cancelled_ = true;
      }
      cancel_();
      return;
    }
    sleep_.Until(SteadyAfter(kPeriod));
    const absl::MutexLock lock(&mutex_);
    if (finished_) {
      return;
    }
  }
}

namespace {

constexpr absl::Duration kFirstPause = absl::Milliseconds(50);
constexpr absl::Duration kLongestPause = absl::Seconds(5);
constexpr absl::Duration kStopPeriod = absl::Milliseconds(100);  // Between two questions whether to stop.

class ResumingTrainingStream final : public TrainingStream {
 public:
  ResumingTrainingStream(TrainingPeer* peer, Reconnector* reconnector, std::unique_ptr<TrainingStream> stream)
      : peer_(peer), reconnector_(reconnector), stream_(std::move(stream)) {}

  // Never fails: answers that have come before the stream broke are still to be taken, and Receive says what broke it.
  absl::Status Send(const v1::CutActivations& message) override {
    if (unanswered_.empty() || unanswered_.back().messages.back().epoch() != message.epoch() ||
        unanswered_.back().messages.back().batch() != message.batch()) {
      unanswered_.emplace_back();
    }
    unanswered_.back().messages.push_back(message);
    broken_ = broken_ || !stream_->Send(message).ok();
    return absl::OkStatus();
  }

  absl::StatusOr<v1::CutGradients> Receive() override {
    while (verdict_.ok()) {
      const SteadyTime since = SteadyNow();
      absl::StatusOr<v1::CutGradients> message = stream_->Receive();
      if (!message.ok()) {
        verdict_ = Reconnector::IsLost(message.status()) ? Resume(message.status()) : message.status();
      } else if (answers_to_skip_ > 0) {
        --answers_to_skip_;
      } else {
        SPLITVEIL_RETURN_IF_ERROR(reconnector_->Reached());
        SPLITVEIL_RETURN_IF_ERROR(reconnector_->Waited(SecondsSince(since)));
        Answered(message->frozen());
        return message;
      }
    }
    return verdict_;
  }

  absl::Status Finish() override {
    if (!verdict_.ok()) {
      return verdict_;
    }
    absl::Status status = stream_->Finish();
    if (Reconnector::IsLost(status) && !reconnector_->given_up().ok()) {
      return reconnector_->given_up();  // Another call has waited for it.
    }
    // Only the goodbye was lost, no answer: nothing has to be repeated.
    if (Reconnector::IsLost(status) && unanswered_.empty()) {
      reconnector_->Lost(status);  // All has been answered: the next call finds out.
      return absl::OkStatus();
    }
    return status;
  }

 private:
  struct Unanswered {
    std::vector<v1::CutActivations> messages;
    size_t answers = 0;  // Slices of the answer that have been received.
  };

  void Answered(bool whole_batch) {
    if (unanswered_.empty()) {
      return;  // Nobody asked for it: that is the caller's to notice.
    }
    Unanswered& oldest = unanswered_.front();
    if (whole_batch || ++oldest.answers == oldest.messages.size()) {
      unanswered_.pop_front();
    }
  }

  // Opens another stream in the place of the broken one, and brings it to where that was. Errors: what the label party
  // ended the stream with; as Reconnector::AwaitReturn.
  absl::Status Resume(absl::Status lost) {
    while (true) {
      absl::Status verdict = stream_->Finish();
      // A server that ends a run cancels its streams: that is a decision, not a lost connection.
      if (absl::IsCancelled(verdict)) {
        return absl::CancelledError("training: the label party has ended the run");
      }
      if (!verdict.ok() && !Reconnector::IsLost(verdict)) {
        return verdict;
      }
      SPLITVEIL_RETURN_IF_ERROR(reconnector_->AwaitReturn(lost));
      SPLITVEIL_ASSIGN_OR_RETURN(stream_, peer_->Train());
      // The label party answers the same activations with the same bytes (architecture rule 2), so slices that came
      // before the break come again.
      answers_to_skip_ = unanswered_.empty() ? 0 : unanswered_.front().answers;
      broken_ = false;
      for (const Unanswered& batch : unanswered_) {
        for (const v1::CutActivations& message : batch.messages) {
          broken_ = broken_ || !stream_->Send(message).ok();
        }
      }
      if (!broken_) {
        return absl::OkStatus();
      }
      lost = absl::UnavailableError("training: the stream broke again");
    }
  }

  TrainingPeer* const peer_;
  Reconnector* const reconnector_;
  std::unique_ptr<TrainingStream> stream_;
  std::deque<Unanswered> unanswered_;  // Batches, oldest first; the latest may be sent in part.
  size_t answers_to_skip_ = 0;
  bool broken_ = false;   // Nothing more is sent on this stream.
  absl::Status verdict_;  // Once it is not OK, it stays.
};

}  // namespace

void Reconnector::Lost(const absl::Status& lost) {
  if (since_.has_value()) {
    return;
  }
  since_ = SteadyNow();
  pause_ = kFirstPause;
  LogWarning("the connection to the label party is lost: ", lost.message());
}

absl::Status Reconnector::AwaitReturn(const absl::Status& lost) {
  // An agreement without outages ends the run at the first one.
  if (!options_.reach || options_.max_outage <= absl::ZeroDuration()) {
    return lost;
  }
  Lost(lost);
  // From the first failure, not from this attempt: many short failures must not add up to a longer outage than agreed.
  const SteadyTime deadline = SteadyAfter(options_.max_outage, *since_);
  Pause(deadline);
  SPLITVEIL_RETURN_IF_ERROR(options_.stop->Check());
  if (SteadyNow() >= deadline) {
    return GiveUp(lost);
  }
  absl::Status reached = options_.reach(deadline);
  if (reached.ok()) {
    return reached;
  }
  SPLITVEIL_RETURN_IF_ERROR(options_.stop->Check());
  return absl::IsUnavailable(reached) ? GiveUp(reached) : reached;
}

absl::Status Reconnector::Reached() {
  if (!since_.has_value()) {
    return absl::OkStatus();
  }
  const std::string detail = absl::StrFormat("%.1f s without the label party", SecondsSince(*since_));
  since_.reset();
  LogInfo("connected again after ", detail);
  return options_.record ? options_.record("interrupted", detail) : absl::OkStatus();
}

absl::Status Reconnector::Waited(double seconds) {
  if (!answers_.IsStall(seconds)) {
    return absl::OkStatus();
  }
  const std::string detail = absl::StrFormat("%.1f s without the label party, the connection held", seconds);
  LogInfo("the run continues after ", detail);
  return options_.record ? options_.record("stalled", detail) : absl::OkStatus();
}

void Reconnector::Pause(SteadyTime deadline) {
  // In short sleeps, since a stop flag set by a signal wakes nobody.
  const SteadyTime end = std::min(SteadyAfter(Jittered(pause_)), deadline);
  while (SteadyNow() < end && !options_.stop->Asked()) {
    absl::SleepFor(std::min(absl::FromChrono(end - SteadyNow()), kStopPeriod));
  }
  pause_ = std::min(2 * pause_, kLongestPause);
}

absl::Status Reconnector::GiveUp(const absl::Status& lost) {
  const std::string detail = absl::StrFormat("%.1f s without the label party, given up", SecondsSince(*since_));
  SPLITVEIL_RETURN_IF_ERROR(options_.record ? options_.record("interrupted", detail) : absl::OkStatus());
  given_up_ = absl::UnavailableError(absl::StrCat("the label party did not come back within ",
                                                  absl::FormatDuration(options_.max_outage),
                                                  " (deadlines.max_outage_seconds): ", lost.message()));
  return given_up_;
}

absl::StatusOr<v1::OpenResponse> ResumingPeer::Open(const v1::OpenRequest& request) {
  return reconnector_->Persist([&] { return peer_->Open(request); });
}

absl::StatusOr<std::vector<v1::MeasureLinkResponse>> ResumingPeer::MeasureLink(const v1::MeasureLinkRequest& request,
                                                                               int calls) {
  return reconnector_->Persist([&] { return peer_->MeasureLink(request, calls); });
}

absl::StatusOr<v1::StartResponse> ResumingPeer::Start(const v1::StartRequest& request) {
  return reconnector_->Persist([&] { return peer_->Start(request); });
}

absl::StatusOr<std::unique_ptr<TrainingStream>> ResumingPeer::Train() {
  SPLITVEIL_ASSIGN_OR_RETURN(std::unique_ptr<TrainingStream> stream, peer_->Train());
  return std::make_unique<ResumingTrainingStream>(peer_, reconnector_, std::move(stream));
}

absl::StatusOr<v1::ScoreBatchResponse> ResumingPeer::ScoreBatch(const v1::ScoreBatchRequest& request) {
  double waited = 0;  // In the call that was answered: it comes between any two batches, and may stall as they may.
  absl::StatusOr<v1::ScoreBatchResponse> response = reconnector_->Persist([&] {
    const SteadyTime since = SteadyNow();
    absl::StatusOr<v1::ScoreBatchResponse> answer = peer_->ScoreBatch(request);
    waited = SecondsSince(since);
    return answer;
  });
  if (response.ok()) {
    SPLITVEIL_RETURN_IF_ERROR(reconnector_->Waited(waited));
  }
  return response;
}

absl::StatusOr<v1::AuxiliaryLabelsResponse> ResumingPeer::AuxiliaryLabels(const v1::AuxiliaryLabelsRequest& request) {
  return reconnector_->Persist([&] { return peer_->AuxiliaryLabels(request); });
}

absl::StatusOr<v1::ScoreExamplesResponse> ResumingPeer::ScoreExamples(const v1::ScoreExamplesRequest& request) {
  return reconnector_->Persist([&] { return peer_->ScoreExamples(request); });
}

absl::Status ResumingPeer::Close(const v1::CloseRequest& request) {
  return request.completed() && !request.answered() ? reconnector_->Persist([&] { return peer_->Close(request); })
                                                    : peer_->Close(request);
}

}  // namespace splitveil
