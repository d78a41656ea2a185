#include "label_party/serving/grpc_inference.h"

#include <chrono>
#include <grpc/grpc_security_constants.h>
#include <grpc/support/time.h>
#include <utility>

#include "absl/time/time.h"

#include "common/process/steady_time.h"
#include "common/transport/client_call.h"

namespace splitveil {
namespace {

template <typename Response>
grpc::Status Put(absl::StatusOr<Response> made, Response* response) {
  const absl::Status status = made.status();
  if (status.ok()) {
    *response = *std::move(made);
  }
  return ToGrpcStatus(status);
}

// On the monotonic clock, as all our deadlines.
SteadyTime DeadlineOf(const grpc::ServerContext& context) {
  const gpr_timespec left =
      gpr_time_sub(gpr_convert_clock_type(context.raw_deadline(), GPR_CLOCK_MONOTONIC), gpr_now(GPR_CLOCK_MONOTONIC));
  return SteadyAfter(absl::Microseconds(gpr_timespec_to_micros(left)));
}

}  // namespace

CallerProof GrpcInference::ProofOf(const grpc::ServerContextBase& context) const {
  CallerProof proof;
  proof.by_socket = by_socket_;
  const auto& metadata = context.client_metadata();
  if (const auto found = metadata.find("authorization"); found != metadata.end()) {
    proof.authorization.assign(found->second.data(), found->second.size());
  }
  if (const auto peer = context.auth_context(); peer != nullptr && peer->IsPeerAuthenticated()) {
    for (const grpc::string_ref& name : peer->FindPropertyValues(GRPC_PEER_DNS_PROPERTY_NAME)) {
      proof.certificate_names.emplace_back(name.data(), name.size());
    }
  }
  return proof;
}

grpc::Status GrpcInference::ServerLive(grpc::ServerContext* /*context*/,
                                       const inference::ServerLiveRequest* /*request*/,
                                       inference::ServerLiveResponse* response) {
  response->set_live(true);
  return grpc::Status::OK;
}

grpc::Status GrpcInference::ServerReady(grpc::ServerContext* /*context*/,
                                        const inference::ServerReadyRequest* /*request*/,
                                        inference::ServerReadyResponse* response) {
  response->set_ready(protocol_->ServerReady());
  return grpc::Status::OK;
}

grpc::Status GrpcInference::ModelReady(grpc::ServerContext* /*context*/, const inference::ModelReadyRequest* request,
                                       inference::ModelReadyResponse* response) {
  const absl::StatusOr<bool> ready = protocol_->ModelReady(*request);
  response->set_ready(ready.ok() && *ready);
  return ToGrpcStatus(ready.status());
}

grpc::Status GrpcInference::ServerMetadata(grpc::ServerContext* context,
                                           const inference::ServerMetadataRequest* /*request*/,
                                           inference::ServerMetadataResponse* response) {
  return Put(protocol_->ServerMetadata(ProofOf(*context)), response);
}

grpc::Status GrpcInference::ModelMetadata(grpc::ServerContext* context, const inference::ModelMetadataRequest* request,
                                          inference::ModelMetadataResponse* response) {
  return Put(protocol_->ModelMetadata(*request, ProofOf(*context)), response);
}

grpc::Status GrpcInference::ModelInfer(grpc::ServerContext* context, const inference::ModelInferRequest* request,
                                       inference::ModelInferResponse* response) {
  return Put(protocol_->ModelInfer(*request, ProofOf(*context), DeadlineOf(*context)), response);
}

}  // namespace splitveil
