#include "nonlabel_party/service/grpc_label_party_peer.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/transport/status_mapper.h"
#include "common/transport/stream_watchdog.h"

namespace splitveil {
namespace {

// One unary call: deadline, call, status.
template <typename Stub, typename Request, typename Response>
absl::StatusOr<Response> Call(Stub* stub, grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                              const Request& request, absl::Duration limit) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(limit));
  Response response;
  const grpc::Status status = (stub->*method)(&context, request, &response);
  if (!status.ok()) {
    return FromGrpcStatus(status);
  }
  return response;
}

// What the streams share: a context, and a watchdog that cancels it when one message takes too long.
class WatchedContext {
 public:
  WatchedContext(const char* what, absl::Duration limit)
      : what_(what), limit_(limit), watchdog_(limit, [this] { context_.TryCancel(); }) {}

  grpc::ClientContext* context() { return &context_; }

  // Runs `operation` (a blocking Read, Write or Finish) under the watchdog.
  template <typename Operation>
  auto Watch(const Operation& operation) {
    watchdog_.Arm();
    auto outcome = operation();
    watchdog_.Disarm();
    return outcome;
  }

  absl::Status Gone() const {
    if (watchdog_.expired()) {
      return absl::DeadlineExceededError(
          absl::StrCat(what_, ": expected an answer within ", absl::FormatDuration(limit_), ", found none"));
    }
    return absl::UnavailableError(absl::StrCat(what_, ": the label party has ended the stream"));
  }

  // A cancellation of our own watchdog reads as what it is.
  absl::Status Verdict(const grpc::Status& status) const {
    return watchdog_.expired() ? Gone() : FromGrpcStatus(status);
  }

 private:
  const char* what_;
  absl::Duration limit_;
  grpc::ClientContext context_;
  StreamWatchdog watchdog_;
};

class GrpcTrainingStream final : public TrainingStream {
 public:
  GrpcTrainingStream(v1::SplitTraining::Stub* stub, absl::Duration limit)
      : watched_("training", limit), stream_(stub->Train(watched_.context())) {}

  absl::Status Send(const v1::CutActivations& message) override {
    return watched_.Watch([&] { return stream_->Write(message); }) ? absl::OkStatus() : watched_.Gone();
  }
  absl::StatusOr<v1::CutGradients> Receive() override {
    v1::CutGradients message;
    if (!watched_.Watch([&] { return stream_->Read(&message); })) {
      return watched_.Gone();
    }
    return message;
  }
  absl::Status Finish() override {
    stream_->WritesDone();
    return watched_.Verdict(watched_.Watch([&] { return stream_->Finish(); }));
  }

 private:
  WatchedContext watched_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::CutActivations, v1::CutGradients>> stream_;
};

class GrpcEvaluationStream final : public EvaluationStream {
 public:
  GrpcEvaluationStream(v1::SplitTraining::Stub* stub, absl::Duration limit)
      : watched_("evaluation", limit), stream_(stub->Evaluate(watched_.context(), &response_)) {}

  absl::Status Send(const v1::CutActivations& message) override {
    return watched_.Watch([&] { return stream_->Write(message); }) ? absl::OkStatus() : watched_.Gone();
  }
  absl::StatusOr<v1::EvaluateResponse> Finish() override {
    stream_->WritesDone();
    const grpc::Status status = watched_.Watch([&] { return stream_->Finish(); });
    if (!status.ok()) {
      return watched_.Verdict(status);
    }
    return response_;
  }

 private:
  WatchedContext watched_;
  v1::EvaluateResponse response_;
  std::unique_ptr<grpc::ClientWriter<v1::CutActivations>> stream_;
};

class GrpcAlignmentStream final : public AlignmentStream {
 public:
  GrpcAlignmentStream(v1::Alignment::Stub* stub, absl::Duration limit)
      : watched_("alignment", limit), stream_(stub->Align(watched_.context())) {}

  absl::Status Send(const v1::AlignmentMessage& message) override {
    return stream_->Write(message) ? absl::OkStatus() : watched_.Gone();
  }
  absl::StatusOr<v1::AlignmentMessage> Receive() override {
    v1::AlignmentMessage message;
    if (!watched_.Watch([&] { return stream_->Read(&message); })) {
      return watched_.Gone();
    }
    return message;
  }
  absl::Status Finish() override {
    stream_->WritesDone();
    return watched_.Verdict(watched_.Watch([&] { return stream_->Finish(); }));
  }

 private:
  WatchedContext watched_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::AlignmentMessage, v1::AlignmentMessage>> stream_;
};

}  // namespace

GrpcLabelPartyPeer::GrpcLabelPartyPeer(const std::shared_ptr<grpc::Channel>& channel, const v1::Deadlines& deadlines)
    : deadlines_(deadlines),
      training_(v1::SplitTraining::NewStub(channel)),
      alignment_(v1::Alignment::NewStub(channel)),
      audit_(v1::LeakAudit::NewStub(channel)) {}

absl::StatusOr<v1::OpenResponse> GrpcLabelPartyPeer::Open(const v1::OpenRequest& request) {
  return Call(training_.get(), &v1::SplitTraining::Stub::Open, request, absl::Seconds(deadlines_.step_seconds()));
}

absl::StatusOr<std::unique_ptr<AlignmentStream>> GrpcLabelPartyPeer::Align() {
  return std::make_unique<GrpcAlignmentStream>(alignment_.get(), absl::Seconds(deadlines_.alignment_chunk_seconds()));
}

absl::StatusOr<v1::StartResponse> GrpcLabelPartyPeer::Start(const v1::StartRequest& request) {
  return Call(training_.get(), &v1::SplitTraining::Stub::Start, request, absl::Seconds(deadlines_.step_seconds()));
}

absl::StatusOr<std::unique_ptr<TrainingStream>> GrpcLabelPartyPeer::Train() {
  return std::make_unique<GrpcTrainingStream>(training_.get(), absl::Seconds(deadlines_.step_seconds()));
}

absl::StatusOr<std::unique_ptr<EvaluationStream>> GrpcLabelPartyPeer::Evaluate() {
  return std::make_unique<GrpcEvaluationStream>(training_.get(), absl::Seconds(deadlines_.step_seconds()));
}

absl::StatusOr<v1::ScoreBatchResponse> GrpcLabelPartyPeer::ScoreBatch(const v1::ScoreBatchRequest& request) {
  return Call(audit_.get(), &v1::LeakAudit::Stub::ScoreBatch, request, absl::Seconds(deadlines_.step_seconds()));
}

absl::Status GrpcLabelPartyPeer::Close(const v1::CloseRequest& request) {
  return Call(training_.get(), &v1::SplitTraining::Stub::Close, request, absl::Seconds(deadlines_.step_seconds()))
      .status();
}

}  // namespace splitveil
