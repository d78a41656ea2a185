#include "label_party/service/split_training_service.h"

#include <algorithm>
#include <utility>

#include "common/transport/alignment_stream_channel.h"
#include "common/transport/status_mapper.h"

namespace splitveil {
namespace {

// Moves a session's answer into the response message.
template <typename Response>
grpc::Status Answer(absl::StatusOr<Response> answer, Response* response) {
  if (!answer.ok()) {
    return ToGrpcStatus(answer.status());
  }
  *response = *std::move(answer);
  return grpc::Status::OK;
}

}  // namespace

grpc::Status SplitTrainingService::Open(grpc::ServerContext* /*context*/, const v1::OpenRequest* request,
                                        v1::OpenResponse* response) {
  return Answer(session_->Open(*request), response);
}

grpc::Status SplitTrainingService::Start(grpc::ServerContext* /*context*/, const v1::StartRequest* request,
                                         v1::StartResponse* response) {
  return Answer(session_->Start(*request), response);
}

grpc::Status SplitTrainingService::Train(grpc::ServerContext* /*context*/,
                                         grpc::ServerReaderWriter<v1::CutGradients, v1::CutActivations>* stream) {
  v1::CutActivations request;
  while (stream->Read(&request)) {
    const absl::StatusOr<SharedGradients> response = session_->Train(std::move(request));
    if (!response.ok()) {
      return ToGrpcStatus(response.status());
    }
    request = v1::CutActivations();
    if (response->empty()) {
      continue;  // The rest of the batch is still to come.
    }
    const bool written =
        std::all_of(response->begin(), response->end(), [stream](const auto& slice) { return stream->Write(*slice); });
    if (const absl::Status learned = session_->Learn(); !learned.ok()) {
      return ToGrpcStatus(learned);
    }
    if (!written) {
      return grpc::Status(grpc::StatusCode::UNAVAILABLE, "the peer is gone");
    }
  }
  return grpc::Status::OK;
}

grpc::Status SplitTrainingService::Evaluate(grpc::ServerContext* /*context*/,
                                            grpc::ServerReader<v1::CutActivations>* reader,
                                            v1::EvaluateResponse* response) {
  LabelSession::Evaluation evaluation;
  v1::CutActivations request;
  while (reader->Read(&request)) {
    if (const absl::Status status = session_->Evaluate(request, evaluation); !status.ok()) {
      return ToGrpcStatus(status);
    }
  }
  return Answer(session_->FinishEvaluation(evaluation), response);
}

grpc::Status SplitTrainingService::Close(grpc::ServerContext* /*context*/, const v1::CloseRequest* request,
                                         v1::CloseResponse* /*response*/) {
  return ToGrpcStatus(session_->Close(*request));
}

grpc::Status AlignmentService::Align(grpc::ServerContext* /*context*/,
                                     grpc::ServerReaderWriter<v1::AlignmentMessage, v1::AlignmentMessage>* stream) {
  AlignmentStreamChannel channel(stream);
  return ToGrpcStatus(session_->Align(channel));
}

grpc::Status LeakAuditService::ScoreBatch(grpc::ServerContext* /*context*/, const v1::ScoreBatchRequest* request,
                                          v1::ScoreBatchResponse* response) {
  return Answer(session_->ScoreBatch(*request), response);
}

grpc::Status LeakAuditService::AuxiliaryLabels(grpc::ServerContext* /*context*/,
                                               const v1::AuxiliaryLabelsRequest* request,
                                               v1::AuxiliaryLabelsResponse* response) {
  return Answer(session_->AuxiliaryLabels(*request), response);
}

grpc::Status LeakAuditService::ScoreExamples(grpc::ServerContext* /*context*/, const v1::ScoreExamplesRequest* request,
                                             v1::ScoreExamplesResponse* response) {
  return Answer(session_->ScoreExamples(*request), response);
}

}  // namespace splitveil
