// inference.GRPCInferenceService over an OpenInference.
#ifndef SPLITVEIL_LABEL_PARTY_SERVING_GRPC_INFERENCE_H_
#define SPLITVEIL_LABEL_PARTY_SERVING_GRPC_INFERENCE_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include "label_party/serving/open_inference.h"

#include "inference/grpc_service.grpc.pb.h"

namespace splitveil {

// Thread-safe.
class GrpcInference final : public inference::GRPCInferenceService::Service {
 public:
  // `by_socket`: CallerProof's. `protocol`: not owned; must outlive this.
  GrpcInference(OpenInference* protocol, bool by_socket) : protocol_(protocol), by_socket_(by_socket) {}

  // Whether a call is a caller's: of strangers the listener keeps fewer connections.
  bool IsCallers(const grpc::ServerContextBase& context) const { return protocol_->Admit(ProofOf(context)).ok(); }

  grpc::Status ServerLive(grpc::ServerContext* context, const inference::ServerLiveRequest* request,
                          inference::ServerLiveResponse* response) override;
  grpc::Status ServerReady(grpc::ServerContext* context, const inference::ServerReadyRequest* request,
                           inference::ServerReadyResponse* response) override;
  grpc::Status ModelReady(grpc::ServerContext* context, const inference::ModelReadyRequest* request,
                          inference::ModelReadyResponse* response) override;
  grpc::Status ServerMetadata(grpc::ServerContext* context, const inference::ServerMetadataRequest* request,
                              inference::ServerMetadataResponse* response) override;
  grpc::Status ModelMetadata(grpc::ServerContext* context, const inference::ModelMetadataRequest* request,
                             inference::ModelMetadataResponse* response) override;
  grpc::Status ModelInfer(grpc::ServerContext* context, const inference::ModelInferRequest* request,
                          inference::ModelInferResponse* response) override;

 private:
  CallerProof ProofOf(const grpc::ServerContextBase& context) const;

  OpenInference* const protocol_;
  const bool by_socket_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_SERVING_GRPC_INFERENCE_H_
