#include "common/transport/server.h"

#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/server_interceptor.h>
#include <utility>

#include "common/status/status_macros.h"

namespace splitveil {
namespace {

constexpr int kMaxThreads = 32;
constexpr int kMaxStreamsOfAConnection = 16;  // A run has three at a time, eight while it measures the link.
constexpr int kHandshakeMillis = 10'000;

// Tells the listener of each call that has been authorised: no interceptor sees any other.
class ProofInterceptor final : public grpc::experimental::Interceptor {
 public:
  ProofInterceptor(ConnectionListener* listener, grpc::experimental::ServerRpcInfo* call)
      : listener_(listener), call_(call) {}

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(grpc::experimental::InterceptionHookPoints::POST_RECV_INITIAL_METADATA)) {
      listener_->MarkAuthorised(call_->server_context()->peer());
    }
    methods->Proceed();
  }

 private:
  ConnectionListener* const listener_;
  grpc::experimental::ServerRpcInfo* const call_;
};

class ProofInterceptors final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit ProofInterceptors(ConnectionListener* listener) : listener_(listener) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(grpc::experimental::ServerRpcInfo* call) override {
    return new ProofInterceptor(listener_, call);
  }

 private:
  ConnectionListener* const listener_;
};

}  // namespace

absl::StatusOr<RunningServer> StartServer(const ServerOptions& options, const TlsIdentity& identity) {
  grpc::EnableDefaultHealthCheckService(true);
  RunningServer running;
  SPLITVEIL_ASSIGN_OR_RETURN(running.listener, ConnectionListener::Create("listen_address", options.listen_address,
                                                                          ConnectionLimits::OfThisProcess()));
  running.port = running.listener->port();
  grpc::ServerBuilder builder;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor =
      builder.experimental().AddExternalConnectionAcceptor(
          grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, ServerTlsCredentials(identity));
  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> interceptors;
  interceptors.push_back(std::make_unique<ProofInterceptors>(running.listener.get()));
  builder.experimental().SetInterceptorCreators(std::move(interceptors));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreamsOfAConnection);
  // A stranger who connects and says nothing must not hold a place for long.
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMillis);
  LimitServer(builder, options.max_message_bytes);
  // A run needs a handful of calls at once; a peer that opens more must not cost a thread each.
  builder.SetResourceQuota(grpc::ResourceQuota("splitveil").SetMaxThreads(kMaxThreads));
  for (grpc::Service* service : options.services) {
    builder.RegisterService(service);
  }
  running.server = builder.BuildAndStart();
  if (running.server == nullptr) {
    return absl::InternalError("gRPC could not start a server");
  }
  SPLITVEIL_RETURN_IF_ERROR(running.listener->Serve(std::move(acceptor)));
  return running;
}

}  // namespace splitveil
