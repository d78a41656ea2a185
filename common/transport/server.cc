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

using IsAuthorised = std::function<bool(const grpc::ServerContextBase&)>;

// Reports each authorised call to the listener: interceptors see only calls that the credentials admit.
class ProofInterceptor final : public grpc::experimental::Interceptor {
 public:
  ProofInterceptor(ConnectionListener* listener, const IsAuthorised* is_authorised,
                   grpc::experimental::ServerRpcInfo* call)
      : listener_(listener), is_authorised_(is_authorised), call_(call) {}

  // A connection counts as the peer's only after a call that passed the certificate check: the handshake alone proves a
  // certificate of the authority, not the agreed name.
  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(grpc::experimental::InterceptionHookPoints::POST_RECV_INITIAL_METADATA) &&
        (*is_authorised_ == nullptr || (*is_authorised_)(*call_->server_context()))) {
      listener_->MarkAuthorised(call_->server_context()->peer());
    }
    methods->Proceed();
  }

 private:
  ConnectionListener* const listener_;
  const IsAuthorised* const is_authorised_;
  grpc::experimental::ServerRpcInfo* const call_;
};

class ProofInterceptors final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  ProofInterceptors(ConnectionListener* listener, IsAuthorised is_authorised)
      : listener_(listener), is_authorised_(std::move(is_authorised)) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(grpc::experimental::ServerRpcInfo* call) override {
    return new ProofInterceptor(listener_, &is_authorised_, call);
  }

 private:
  ConnectionListener* const listener_;
  const IsAuthorised is_authorised_;
};

}  // namespace

absl::StatusOr<RunningServer> StartServer(const ServerOptions& options, const TlsIdentity& identity) {
  return StartServer(options, ServerTlsCredentials(identity));
}

absl::StatusOr<RunningServer> StartServer(const ServerOptions& options,
                                          const std::shared_ptr<grpc::ServerCredentials>& credentials) {
  // So that a supervisor can ask whether the process serves, without any right to the run.
  grpc::EnableDefaultHealthCheckService(true);
  RunningServer running;
  SPLITVEIL_ASSIGN_OR_RETURN(running.listener, ConnectionListener::Create("listen_address", options.listen_address,
                                                                          ConnectionLimits::OfThisProcess()));
  running.port = running.listener->port();
  grpc::ServerBuilder builder;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor =
      builder.experimental().AddExternalConnectionAcceptor(
          grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, credentials);
  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> interceptors;
  interceptors.push_back(std::make_unique<ProofInterceptors>(running.listener.get(), options.is_authorised));
  builder.experimental().SetInterceptorCreators(std::move(interceptors));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreamsOfAConnection);
  // A stranger who connects and says nothing must not hold a place for long.
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMillis);
  LimitServer(builder, options.max_message_bytes);
  // A run needs a handful of calls at once; a peer that opens more must not cost a thread each.
  grpc::ResourceQuota quota("splitveil");
  quota.SetMaxThreads(kMaxThreads);
  if (options.max_memory_bytes > 0) {
    quota.Resize(static_cast<size_t>(options.max_memory_bytes));
  }
  builder.SetResourceQuota(quota);
  for (grpc::Service* service : options.services) {
    builder.RegisterService(service);
  }
  running.server = builder.BuildAndStart();
  if (running.server == nullptr) {
    return absl::InternalError("gRPC could not start a server");
  }
  // Last: no connection is accepted before the services that answer it are registered.
  SPLITVEIL_RETURN_IF_ERROR(running.listener->Serve(std::move(acceptor)));
  return running;
}

}  // namespace splitveil
