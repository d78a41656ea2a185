// A gRPC server under mutual TLS.
#ifndef SPLITVEIL_COMMON_TRANSPORT_SERVER_H_
#define SPLITVEIL_COMMON_TRANSPORT_SERVER_H_

#include <grpcpp/impl/service_type.h>
#include <grpcpp/server.h>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "common/transport/connection_listener.h"
#include "common/transport/credentials.h"

namespace splitveil {

struct ServerOptions {
  std::string listen_address;            // host:port; port 0 takes a free one.
  int64_t max_message_bytes = 0;         // Of a message in either direction.
  std::vector<grpc::Service*> services;  // Not owned; must outlive the server. grpc.health.v1 comes by itself.
};

struct RunningServer {
  std::unique_ptr<ConnectionListener> listener;  // Outlives the server, whose calls it is told of.
  std::unique_ptr<grpc::Server> server;
  int port = 0;
};

// A call for which no thread is left (32 in all) ends with ResourceExhausted, like a message above the limit: the
// caller is refused, not halted; a connection has 16 calls at a time and 10 seconds for its handshake, and there are
// ConnectionLimits of connections. The log says when the port accepts no more (ListenerWatch). Errors: Internal where
// threads are lacking; InvalidArgument where the address cannot be listened on.
absl::StatusOr<RunningServer> StartServer(const ServerOptions& options, const TlsIdentity& identity);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_TRANSPORT_SERVER_H_
