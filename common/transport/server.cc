#include "common/transport/server.h"

#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server_builder.h>

#include "absl/strings/str_cat.h"

namespace splitveil {
namespace {

constexpr int kMaxThreads = 32;

}  // namespace

absl::StatusOr<RunningServer> StartServer(const ServerOptions& options, const TlsIdentity& identity) {
  grpc::EnableDefaultHealthCheckService(true);
  RunningServer running;
  grpc::ServerBuilder builder;
  builder.AddListeningPort(options.listen_address, ServerTlsCredentials(identity), &running.port);
  LimitServer(builder, options.max_message_bytes);
  // A run needs a handful of calls at once; a peer that opens more must not cost a thread each.
  builder.SetResourceQuota(grpc::ResourceQuota("splitveil").SetMaxThreads(kMaxThreads));
  // A second server on the same port would silently take half of the calls.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  for (grpc::Service* service : options.services) {
    builder.RegisterService(service);
  }
  running.server = builder.BuildAndStart();
  if (running.server == nullptr || running.port == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("listen_address: expected a free host:port, found ", options.listen_address));
  }
  return running;
}

}  // namespace splitveil
