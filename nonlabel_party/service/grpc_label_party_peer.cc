#include "nonlabel_party/service/grpc_label_party_peer.h"

#include <algorithm>
#include <deque>
#include <grpcpp/completion_queue.h>
#include <grpcpp/support/async_unary_call.h>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

#include "common/config/agreement.h"
#include "common/crypto/invariant.h"
#include "common/status/status_macros.h"
#include "common/transport/client_call.h"

namespace splitveil {
namespace {

// What the streams share: a context, and a watchdog for each direction, which cancels it when one message takes too
// long. The two directions may be used at the same time, each from one thread.
class WatchedContext {
 public:
  WatchedContext(const char* what, absl::Duration limit)
      : what_(what),
        limit_(limit),
        receiving_(limit, [this] { context_.TryCancel(); }),
        sending_(limit, [this] { context_.TryCancel(); }) {}

  grpc::ClientContext* context() { return &context_; }

  // Each runs `operation` (a blocking Read or Finish; a blocking Write) under its direction's watchdog.
  template <typename Operation>
  auto Receiving(const Operation& operation) {
    return Watch(receiving_, operation);
  }
  template <typename Operation>
  auto Sending(const Operation& operation) {
    return Watch(sending_, operation);
  }

  absl::Status Gone() const {
    if (receiving_.expired()) {
      return absl::DeadlineExceededError(
          absl::StrCat(what_, ": expected an answer within ", absl::FormatDuration(limit_), ", found none"));
    }
    if (sending_.expired()) {
      return absl::DeadlineExceededError(absl::StrCat(what_, ": expected the label party to read a message within ",
                                                      absl::FormatDuration(limit_), ", found it does not"));
    }
    return absl::UnavailableError(absl::StrCat(what_, ": the label party has ended the stream"));
  }

  // A cancellation of our own watchdog reads as what it is.
  absl::Status Verdict(const grpc::Status& status) const {
    return receiving_.expired() || sending_.expired() ? Gone() : FromGrpcStatus(status);
  }

 private:
  // Only while a call is under way: an idle stream may wait for the next batch as long as it takes.
  template <typename Operation>
  static auto Watch(StreamWatchdog& watchdog, const Operation& operation) {
    // A deadline per message: a stream lasts an epoch, so one for all of it would have to be hours long.
    watchdog.Arm();
    auto outcome = operation();
    watchdog.Disarm();
    return outcome;
  }

  const char* what_;
  absl::Duration limit_;
  grpc::ClientContext context_;
  StreamWatchdog receiving_, sending_;
};

// Reads on a thread of its own: a label party that waits for a gradient to be read takes no further activations, so a
// Write of ours could wait for ever on one that waits for us.
class GrpcTrainingStream final : public TrainingStream {
 public:
  // `unread_bytes`: of messages held until Receive takes them, and one message more. A label party that sends more of
  // them has to wait.
  GrpcTrainingStream(v1::SplitTraining::Stub* stub, absl::Duration limit, size_t unread_bytes)
      : unread_bytes_(unread_bytes),
        watched_("training", limit),
        stream_(stub->Train(watched_.context())),
        reader_([this] { ReadAll(); }) {}

  // A stream that is dropped without Finish, after an error: the reader must end before its members do.
  ~GrpcTrainingStream() override {
    if (reader_.joinable()) {
      watched_.context()->TryCancel();
      JoinReader();
      (void)stream_->Finish();
    }
  }

  absl::Status Send(const v1::CutActivations& message) override {
    return watched_.Sending([&] { return stream_->Write(message); }) ? absl::OkStatus() : watched_.Gone();
  }

  absl::StatusOr<v1::CutGradients> Receive() override ABSL_LOCKS_EXCLUDED(mutex_) {
    // The watchdog cancels the call, which ends the reader's Read.
    watched_.Receiving([this] {
      AwaitMessage();
      return true;
    });
    // Nothing came: either the stream has ended or the watchdog has cancelled it.
    const absl::MutexLock lock(&mutex_);
    if (received_.empty()) {
      return watched_.Gone();
    }
    v1::CutGradients message = std::move(received_.front());
    received_.pop_front();
    held_bytes_ -= HeldBytes(message);
    return message;
  }

  absl::Status Finish() override {
    stream_->WritesDone();
    return watched_.Verdict(watched_.Receiving([&] {
      JoinReader();
      return stream_->Finish();
    }));
  }

 private:
  // An empty message takes memory, too.
  static size_t HeldBytes(const v1::CutGradients& message) { return message.ByteSizeLong() + sizeof(message); }

  // Returns when a message is held or none comes any more.
  void AwaitMessage() ABSL_LOCKS_EXCLUDED(mutex_) {
    const absl::MutexLock lock(&mutex_, absl::Condition(this, &GrpcTrainingStream::HasMessageOrEnded));
  }
  bool HasMessageOrEnded() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return ended_ || !received_.empty(); }
  bool HasRoomOrDiscards() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return discarding_ || held_bytes_ < unread_bytes_;
  }

  void ReadAll() ABSL_LOCKS_EXCLUDED(mutex_) {
    v1::CutGradients message;
    while (stream_->Read(&message)) {
      {
        const absl::MutexLock lock(&mutex_, absl::Condition(this, &GrpcTrainingStream::HasRoomOrDiscards));
        if (!discarding_) {
          // Bounded by bytes: a peer that sends without being asked must not fill this party's memory.
          held_bytes_ += HeldBytes(message);
          received_.push_back(std::move(message));
        }
      }
      // The old one may have been moved from.
      message = v1::CutGradients();
    }
    const absl::MutexLock lock(&mutex_);
    ended_ = true;
  }

  // Returns when the label party has ended the stream, or the call is cancelled. What it still sends is dropped.
  void JoinReader() ABSL_LOCKS_EXCLUDED(mutex_) {
    {
      const absl::MutexLock lock(&mutex_);
      discarding_ = true;
    }
    reader_.join();
  }

  const size_t unread_bytes_;
  WatchedContext watched_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::CutActivations, v1::CutGradients>> stream_;
  absl::Mutex mutex_;
  std::deque<v1::CutGradients> received_ ABSL_GUARDED_BY(mutex_);
  size_t held_bytes_ ABSL_GUARDED_BY(mutex_) = 0;    // HeldBytes of those.
  bool discarding_ ABSL_GUARDED_BY(mutex_) = false;  // Nobody will ask for what comes now.
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;       // Nothing more comes.
  std::thread reader_;                               // Last: uses all above.
};

// Messages of one kind out, one answer back.
template <typename Response>
class GrpcUploadStream final : public UploadStream<Response> {
 public:
  // `open`: a method of `stub` that begins the call with a context and a place for the answer.
  template <typename Stub, typename Open>
  GrpcUploadStream(Stub* stub, Open open, const char* what, absl::Duration limit)
      : watched_(what, limit), stream_((stub->*open)(watched_.context(), &response_)) {}

  absl::Status Send(const v1::CutActivations& message) override {
    return watched_.Sending([&] { return stream_->Write(message); }) ? absl::OkStatus() : watched_.Gone();
  }
  absl::StatusOr<Response> Finish() override {
    stream_->WritesDone();
    // The answer is there only if the label party was content with all messages.
    const grpc::Status status = watched_.Receiving([&] { return stream_->Finish(); });
    if (!status.ok()) {
      return watched_.Verdict(status);
    }
    return response_;
  }

 private:
  WatchedContext watched_;
  Response response_;
  std::unique_ptr<grpc::ClientWriter<v1::CutActivations>> stream_;
};

class GrpcGuessStream final : public GuessStream {
 public:
  GrpcGuessStream(v1::AttributeAudit::Stub* stub, absl::Duration limit, const v1::GuessAttributesRequest& request)
      : watched_("attribute guesses", limit), stream_(stub->GuessAttributes(watched_.context(), request)) {}

  std::optional<v1::AttributeGuesses> Receive() override {
    v1::AttributeGuesses message;
    ended_ = ended_ || !watched_.Receiving([&] { return stream_->Read(&message); });
    return ended_ ? std::nullopt : std::optional<v1::AttributeGuesses>(std::move(message));
  }
  absl::Status Finish() override {
    if (!ended_) {  // Messages that nobody reads would keep Finish waiting.
      watched_.context()->TryCancel();
    }
    return watched_.Verdict(watched_.Receiving([&] { return stream_->Finish(); }));
  }

 private:
  WatchedContext watched_;
  std::unique_ptr<grpc::ClientReader<v1::AttributeGuesses>> stream_;
  bool ended_ = false;
};

class GrpcAlignmentStream final : public AlignmentStream {
 public:
  GrpcAlignmentStream(v1::Alignment::Stub* stub, absl::Duration limit)
      : watched_("alignment", limit), stream_(stub->Align(watched_.context())) {}

  absl::Status Send(const v1::AlignmentMessage& message) override {
    return watched_.Sending([&] { return stream_->Write(message); }) ? absl::OkStatus() : watched_.Gone();
  }
  absl::StatusOr<v1::AlignmentMessage> Receive() override {
    v1::AlignmentMessage message;
    if (!watched_.Receiving([&] { return stream_->Read(&message); })) {
      return watched_.Gone();
    }
    return message;
  }
  absl::Status Finish() override {
    stream_->WritesDone();
    return watched_.Verdict(watched_.Receiving([&] { return stream_->Finish(); }));
  }
  void Cancel() override { watched_.context()->TryCancel(); }

 private:
  WatchedContext watched_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::AlignmentMessage, v1::AlignmentMessage>> stream_;
};

// A stream starts threads: if the system has none left, that is an error and not the end of the process.
template <typename Stream, typename Base, typename... Arguments>
absl::StatusOr<std::unique_ptr<Base>> OpenStream(const Arguments&... arguments) {
  try {
    return std::unique_ptr<Base>(std::make_unique<Stream>(arguments...));
  } catch (const std::system_error& error) {
    return absl::InternalError(absl::StrCat("a stream's thread could not be started: ", error.what()));
  }
}

}  // namespace

GrpcLabelPartyPeer::GrpcLabelPartyPeer(Channels channels, const v1::RunAgreement& agreement)
    // Agreed, not configured: both parties must give up at the same time.
    : deadlines_(agreement.deadlines()),
      // However many slices an answer has, its bytes are those of one message with the whole batch.
      unread_bytes_(static_cast<size_t>(MostInFlight(agreement) * MaxMessageBytes(agreement))),
      channels_(std::move(channels)) {}

SteadyTime GrpcLabelPartyPeer::StepDeadline() const { return SteadyAfter(absl::Seconds(deadlines_.step_seconds())); }

absl::StatusOr<v1::OpenResponse> GrpcLabelPartyPeer::Open(const v1::OpenRequest& request) {
  return CallUnary(Training(), &v1::SplitTraining::Stub::Open, request, StepDeadline());
}

absl::StatusOr<std::unique_ptr<AlignmentStream>> GrpcLabelPartyPeer::Align() {
  return OpenStream<GrpcAlignmentStream, AlignmentStream>(v1::Alignment::NewStub(channels_()).get(),
                                                          absl::Seconds(deadlines_.alignment_chunk_seconds()));
}

absl::StatusOr<std::vector<v1::MeasureLinkResponse>> GrpcLabelPartyPeer::MeasureLink(
    const v1::MeasureLinkRequest& request, int calls) {
  struct Call {
    grpc::ClientContext context;
    grpc::Status status;
    std::unique_ptr<grpc::ClientAsyncResponseReader<v1::MeasureLinkResponse>> reader;
  };
  const auto stub = Training();
  const auto count = static_cast<size_t>(calls);
  grpc::CompletionQueue done;
  std::vector<Call> under_way(count);
  std::vector<v1::MeasureLinkResponse> responses(count);
  for (size_t i = 0; i < count; ++i) {
    under_way[i].context.set_deadline(GrpcDeadline(StepDeadline()));
    // At once and without threads of their own, so that they share the link as the batches of a run do.
    under_way[i].reader = stub->AsyncMeasureLink(&under_way[i].context, request, &done);
    under_way[i].reader->Finish(&responses[i], &under_way[i].status, /*tag=*/nullptr);
  }
  // Deadlines end every call, so the queue always empties.
  void* tag = nullptr;
  bool ok = false;
  for (size_t i = 0; i < count; ++i) {  // All of them, since they write into these; each by its deadline.
    CheckInvariant(done.Next(&tag, &ok), "GrpcLabelPartyPeer: every call ends");
  }
  for (const Call& call : under_way) {
    SPLITVEIL_RETURN_IF_ERROR(FromGrpcStatus(call.status));
  }
  return responses;
}

absl::StatusOr<v1::StartResponse> GrpcLabelPartyPeer::Start(const v1::StartRequest& request) {
  return CallUnary(Training(), &v1::SplitTraining::Stub::Start, request,
                   SteadyAfter(absl::Seconds(deadlines_.alignment_chunk_seconds())));
}

absl::StatusOr<std::unique_ptr<TrainingStream>> GrpcLabelPartyPeer::Train() {
  return OpenStream<GrpcTrainingStream, TrainingStream>(Training().get(), absl::Seconds(deadlines_.step_seconds()),
                                                        unread_bytes_);
}

absl::StatusOr<std::unique_ptr<EvaluationStream>> GrpcLabelPartyPeer::Evaluate() {
  return OpenStream<GrpcUploadStream<v1::EvaluateResponse>, EvaluationStream>(
      Training().get(), &v1::SplitTraining::Stub::Evaluate, "evaluation", absl::Seconds(deadlines_.step_seconds()));
}

absl::Duration GrpcLabelPartyPeer::LongLimit() const {
  return absl::Seconds(std::max(deadlines_.step_seconds(), deadlines_.alignment_chunk_seconds()));
}

absl::StatusOr<std::unique_ptr<EmbeddingStream>> GrpcLabelPartyPeer::EmbedAuxiliary() {
  return OpenStream<GrpcUploadStream<v1::EmbedAuxiliaryResponse>, EmbeddingStream>(
      v1::AttributeAudit::NewStub(channels_()).get(), &v1::AttributeAudit::Stub::EmbedAuxiliary,
      "auxiliary activations", absl::Seconds(deadlines_.step_seconds()));
}

absl::StatusOr<std::unique_ptr<GuessStream>> GrpcLabelPartyPeer::GuessAttributes(
    const v1::GuessAttributesRequest& request) {
  return OpenStream<GrpcGuessStream, GuessStream>(v1::AttributeAudit::NewStub(channels_()).get(), LongLimit(), request);
}

absl::StatusOr<v1::ScoreBatchResponse> GrpcLabelPartyPeer::ScoreBatch(const v1::ScoreBatchRequest& request) {
  return CallUnary(Audit(), &v1::LeakAudit::Stub::ScoreBatch, request, StepDeadline());
}

absl::StatusOr<v1::AuxiliaryLabelsResponse> GrpcLabelPartyPeer::AuxiliaryLabels(
    const v1::AuxiliaryLabelsRequest& request) {
  return CallUnary(Audit(), &v1::LeakAudit::Stub::AuxiliaryLabels, request, StepDeadline());
}

absl::StatusOr<v1::ScoreExamplesResponse> GrpcLabelPartyPeer::ScoreExamples(const v1::ScoreExamplesRequest& request) {
  return CallUnary(Audit(), &v1::LeakAudit::Stub::ScoreExamples, request, StepDeadline());
}

absl::Status GrpcLabelPartyPeer::Close(const v1::CloseRequest& request) {
  // The answer to a complete run follows the label party's last figures, which are of all its examples.
  const SteadyTime deadline = request.completed() && !request.answered() ? SteadyAfter(LongLimit()) : StepDeadline();
  return CallUnary(Training(), &v1::SplitTraining::Stub::Close, request, deadline).status();
}

}  // namespace splitveil
