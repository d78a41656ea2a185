#include "label_party/service/split_training_service.h"

#include <algorithm>
#include <utility>

#include "common/transport/client_call.h"
#include "common/transport/server.h"

namespace splitveil {
namespace {

// Indices of the methods in split_training.proto.
constexpr int kTrain = 2;
constexpr int kEvaluate = 3;

// And in attribute_audit.proto.
constexpr int kEmbedAuxiliary = 0;

// What the peer reads of `status`. A refusal is recorded.
// The one way out of every handler, so that no refusal escapes the ledger.
grpc::Status Verdict(LabelSession& session, const char* call, const absl::Status& status) {
  if (!status.ok()) {
    session.NoteRefusal(call, status);
  }
  return ToGrpcStatus(status);
}

// Reports a stream to the session for as long as its handler runs.
class OpenStream {
 public:
  explicit OpenStream(LabelSession* session) : session_(session) { session_->StreamOpened(); }
  ~OpenStream() { session_->StreamClosed(); }
  OpenStream(const OpenStream&) = delete;
  OpenStream& operator=(const OpenStream&) = delete;

 private:
  LabelSession* const session_;
};

// The end of a stream whose peer has come back on a later one.
grpc::Status Overtaken() { return {grpc::StatusCode::CANCELLED, "a later stream has taken this one's place"}; }

// Moves a session's answer into the response message.
template <typename Response>
grpc::Status Answer(LabelSession& session, const char* call, absl::StatusOr<Response> answer, Response* response) {
  if (!answer.ok()) {
    return Verdict(session, call, answer.status());
  }
  *response = *std::move(answer);
  return grpc::Status::OK;
}

// The end of a handler whose peer no longer listens.
grpc::Status Gone(LabelSession& session) {
  session.ConnectionLost();
  return {grpc::StatusCode::UNAVAILABLE, "the peer is gone"};
}

// A call that brings activations in a stream and gets one answer after the last of them: `take` adds each message to
// `state`, which counts once `finish` has seen the whole.
template <typename State, typename Response>
struct Upload {
  const char* call;
  CallLimit* limit;
  absl::Status (LabelSession::*take)(const v1::CutActivations&, State&);
  absl::StatusOr<Response> (LabelSession::*finish)(const State&);
  State state = {};
};

template <typename State, typename Response>
grpc::Status ReadActivations(LabelSession& session, Upload<State, Response> upload, const grpc::ServerContext& context,
                             grpc::ServerReaderWriter<Response, grpc::ByteBuffer>* stream) {
  const char* const call = upload.call;
  const CallLimit::Slot slot(upload.limit);
  if (!slot.granted()) {
    return slot.Refusal(call);
  }
  const OpenStream open(&session);
  while (true) {
    v1::CutActivations request;
    const absl::StatusOr<bool> read = ReadMessage(stream, call, &request);
    if (!read.ok()) {
      return Verdict(session, call, read.status());
    }
    if (!*read) {
      break;
    }
    if (const absl::Status taken = (session.*upload.take)(request, upload.state); !taken.ok()) {
      return Verdict(session, call, taken);
    }
  }
  // A stream that was cut off ends like one that is complete: only the context tells them apart.
  if (context.IsCancelled()) {
    session.ConnectionLost();
    return {grpc::StatusCode::CANCELLED, "the peer has cancelled the call"};
  }
  Response response;
  grpc::Status status = Answer(session, call, (session.*upload.finish)(upload.state), &response);
  return status.ok() && !stream->Write(response) ? Gone(session) : status;
}

// Serves a streamed method of `Service` from bytes: to the generated handler a damaged message reads as the end of the
// stream.
template <typename Service, typename Response, typename Serve>
grpc::internal::MethodHandler* FromBytes(Service* service, Serve serve) {
  return new grpc::internal::BidiStreamingHandler<Service, grpc::ByteBuffer, Response>(
      [serve](Service* /*service*/, grpc::ServerContext* context,
              grpc::ServerReaderWriter<Response, grpc::ByteBuffer>* stream) { return serve(context, stream); },
      service);
}

}  // namespace

SplitTrainingService::SplitTrainingService(LabelSession* session) : session_(session) {
  MarkMethodStreamed(kTrain, FromBytes<SplitTrainingService, v1::CutGradients>(
                                 this, [this](auto* context, auto* stream) { return TrainStream(context, stream); }));
  MarkMethodStreamed(kEvaluate,
                     FromBytes<SplitTrainingService, v1::EvaluateResponse>(this, [this](auto* context, auto* stream) {
                       const Upload<LabelSession::Evaluation, v1::EvaluateResponse> upload{
                           "Evaluate", &evaluations_, &LabelSession::Evaluate, &LabelSession::FinishEvaluation};
                       return ReadActivations(*session_, upload, *context, stream);
                     }));
}

grpc::Status SplitTrainingService::Open(grpc::ServerContext* /*context*/, const v1::OpenRequest* request,
                                        v1::OpenResponse* response) {
  return Answer(*session_, "Open", session_->Open(*request), response);
}

grpc::Status SplitTrainingService::MeasureLink(grpc::ServerContext* /*context*/, const v1::MeasureLinkRequest* request,
                                               v1::MeasureLinkResponse* response) {
  return Answer(*session_, "MeasureLink", session_->MeasureLink(*request), response);
}

grpc::Status SplitTrainingService::Start(grpc::ServerContext* /*context*/, const v1::StartRequest* request,
                                         v1::StartResponse* response) {
  return Answer(*session_, "Start", session_->Start(*request), response);
}

grpc::Status SplitTrainingService::TrainStream(grpc::ServerContext* context,
                                               grpc::ServerReaderWriter<v1::CutGradients, grpc::ByteBuffer>* stream) {
  const CallLimit::Slot slot(&trainings_);
  if (!slot.granted()) {
    return slot.Refusal("Train");
  }
  const OpenStream open(session_);
  LatestStream::Turn turn(&latest_, context);
  while (true) {
    v1::CutActivations request;
    if (!turn.BeginRead()) {
      return Verdict(*session_, "Train", session_->HowItEnded());
    }
    const absl::StatusOr<bool> read = ReadMessage(stream, "Train", &request);
    turn.EndRead();
    if (!read.ok() || !*read) {
      if (read.ok() && turn.counts()) {
        session_->TrainStreamEnded(context->IsCancelled());
      }
      return Verdict(*session_, "Train", read.status());
    }
    // Read before the later stream counted: the peer sends this batch again there.
    if (turn.overtaken()) {
      return Overtaken();
    }
    const absl::StatusOr<SharedGradients> response = session_->Train(std::move(request), turn.overtakes());
    if (!response.ok()) {
      return Verdict(*session_, "Train", response.status());
    }
    if (!turn.Accepted()) {
      return Overtaken();
    }
    if (response->empty()) {
      continue;  // The rest of the batch is still to come.
    }
    const bool written =
        std::all_of(response->begin(), response->end(), [stream](const auto& slice) { return stream->Write(*slice); });
    // Also if the write failed: the gradients count as released, and the step must be finished.
    if (const absl::Status learned = session_->Learn(); !learned.ok()) {
      return ToGrpcStatus(learned);
    }
    if (!written) {
      if (turn.counts()) {  // Else a later stream has taken over, and the connection is not lost.
        session_->ConnectionLost();
      }
      return {grpc::StatusCode::UNAVAILABLE, "the peer is gone"};
    }
  }
}

grpc::Status SplitTrainingService::Close(grpc::ServerContext* /*context*/, const v1::CloseRequest* request,
                                         v1::CloseResponse* /*response*/) {
  return Verdict(*session_, "Close", session_->Close(*request));
}

AlignmentService::AlignmentService(LabelSession* session) : session_(session) {
  MarkMethodStreamed(AlignmentStreamChannel::kMethod,
                     new AlignmentStreamChannel::Handler<AlignmentService>(
                         [](AlignmentService* service, grpc::ServerContext* context,
                            AlignmentStreamChannel::Stream* stream) { return service->AlignStream(context, stream); },
                         this));
}

grpc::Status AlignmentService::AlignStream(grpc::ServerContext* context, AlignmentStreamChannel::Stream* stream) {
  const CallLimit::Slot slot(&alignments_);
  if (!slot.granted()) {
    return slot.Refusal("Align");
  }
  LatestStream::Turn turn(&latest_, context);
  AlignmentStreamChannel channel(stream);
  return Verdict(*session_, "Align", session_->Align(channel, [&turn] { (void)turn.Accepted(); }));
}

grpc::Status LeakAuditService::ScoreBatch(grpc::ServerContext* /*context*/, const v1::ScoreBatchRequest* request,
                                          v1::ScoreBatchResponse* response) {
  return Answer(*session_, "ScoreBatch", session_->ScoreBatch(*request), response);
}

grpc::Status LeakAuditService::AuxiliaryLabels(grpc::ServerContext* /*context*/,
                                               const v1::AuxiliaryLabelsRequest* request,
                                               v1::AuxiliaryLabelsResponse* response) {
  return Answer(*session_, "AuxiliaryLabels", session_->AuxiliaryLabels(*request), response);
}

grpc::Status LeakAuditService::ScoreExamples(grpc::ServerContext* /*context*/, const v1::ScoreExamplesRequest* request,
                                             v1::ScoreExamplesResponse* response) {
  return Answer(*session_, "ScoreExamples", session_->ScoreExamples(*request), response);
}

AttributeAuditService::AttributeAuditService(LabelSession* session) : session_(session) {
  MarkMethodStreamed(
      kEmbedAuxiliary,
      FromBytes<AttributeAuditService, v1::EmbedAuxiliaryResponse>(this, [this](auto* context, auto* stream) {
        const Upload<LabelSession::Embedding, v1::EmbedAuxiliaryResponse> upload{
            "EmbedAuxiliary", &embeddings_, &LabelSession::EmbedAuxiliary, &LabelSession::FinishEmbedding};
        return ReadActivations(*session_, upload, *context, stream);
      }));
}

grpc::Status AttributeAuditService::GuessAttributes(grpc::ServerContext* /*context*/,
                                                    const v1::GuessAttributesRequest* request,
                                                    grpc::ServerWriter<v1::AttributeGuesses>* writer) {
  const CallLimit::Slot slot(&guesses_);
  if (!slot.granted()) {
    return slot.Refusal("GuessAttributes");
  }
  const OpenStream open(session_);
  const absl::StatusOr<SharedGuesses> guesses = session_->GuessAttributes(*request);
  if (!guesses.ok()) {
    return Verdict(*session_, "GuessAttributes", guesses.status());
  }
  for (const v1::AttributeGuesses& message : **guesses) {
    if (!writer->Write(message)) {
      return Gone(*session_);
    }
  }
  return grpc::Status::OK;
}

LatestStream::Turn::Turn(LatestStream* latest, grpc::ServerContext* context)
    : latest_(latest), context_(context), number_([latest] {
        const absl::MutexLock lock(&latest->mutex_);
        return ++latest->streams_;
      }()) {}

LatestStream::Turn::~Turn() {
  const absl::MutexLock lock(&latest_->mutex_);
  // The context is about to be destroyed: nobody may cancel it afterwards.
  if (latest_->current_ == context_) {
    latest_->current_ = nullptr;
  }
}

bool LatestStream::Turn::BeginRead() {
  const absl::MutexLock lock(&latest_->mutex_);
  if (latest_->current_ == context_) {
    // Only a stream that waits for its peer may be cancelled: one that works has an answer to write.
    latest_->reading_ = true;
  }
  return !latest_->ended_;
}

void LatestStream::Turn::EndRead() {
  const absl::MutexLock lock(&latest_->mutex_);
  if (latest_->current_ == context_) {
    latest_->reading_ = false;
  }
}

bool LatestStream::Turn::overtakes() const {
  const absl::MutexLock lock(&latest_->mutex_);
  return latest_->current_ != nullptr && number_ > latest_->accepted_;
}

bool LatestStream::Turn::overtaken() const {
  const absl::MutexLock lock(&latest_->mutex_);
  return number_ < latest_->accepted_;
}

bool LatestStream::Turn::Accepted() {
  const absl::MutexLock lock(&latest_->mutex_);
  // By the order in which streams were opened, not in which their messages arrive.
  if (number_ < latest_->accepted_) {
    return false;
  }
  if (latest_->current_ == context_) {
    return true;
  }
  if (latest_->current_ != nullptr) {
    // The old stream may wait minutes for a connection that was lost.
    latest_->current_->TryCancel();
  }
  latest_->current_ = context_;
  latest_->accepted_ = number_;
  latest_->reading_ = false;
  return true;
}

bool LatestStream::Turn::counts() const {
  const absl::MutexLock lock(&latest_->mutex_);
  return latest_->current_ == context_;
}

void LatestStream::End() {
  const absl::MutexLock lock(&mutex_);
  // Streams that are answering finish by themselves; cancelled, they would lose gradients that already count.
  ended_ = true;
  if (current_ != nullptr && reading_) {
    current_->TryCancel();
  }
}

}  // namespace splitveil
