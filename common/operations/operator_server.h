// The operator's own way to a party, which no peer can reach or crowd.
#ifndef SPLITVEIL_COMMON_OPERATIONS_OPERATOR_SERVER_H_
#define SPLITVEIL_COMMON_OPERATIONS_OPERATOR_SERVER_H_

#include <cstdint>
#include <grpcpp/impl/service_type.h>
#include <grpcpp/server.h>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "common/operations/run_status.h"
#include "common/transport/host_port.h"

#include "splitveil/v1/operations.grpc.pb.h"
#include "splitveil/v1/party.pb.h"

namespace splitveil {

// splitveil.v1.Operations over a RunStatus. Thread-safe.
class OperationsService final : public v1::Operations::Service {
 public:
  // `status`: not owned; must outlive this.
  explicit OperationsService(const RunStatus* status) : status_(status) {}

  // RunStatus::Snapshot as of now. Never fails.
  grpc::Status GetStatus(grpc::ServerContext* context, const v1::GetStatusRequest* request,
                         v1::GetStatusResponse* response) override;

 private:
  const RunStatus* status_;
};

// The party's status_socket; LEDGER.sock if none is configured.
std::string StatusSocketPath(const v1::PartyCommon& party);

// A Unix domain socket as gRPC names it, with its folder kept open: a path may be longer than the 107 bytes that a
// socket's address has. Movable, not copyable.
class SocketAddress {
 public:
  // Errors: InvalidArgument, naming `field`, if the folder cannot be opened or the file's name is too long.
  static absl::StatusOr<SocketAddress> Of(const std::string& path, const std::string& field = "party.status_socket");
  SocketAddress(SocketAddress&& other) noexcept;
  SocketAddress& operator=(SocketAddress&& other) noexcept;
  ~SocketAddress();

  // A path by way of /proc/self/fd; valid while this lives.
  std::string file() const;
  std::string grpc_name() const { return "unix:" + file(); }

 private:
  SocketAddress(int folder, std::string name);

  int folder_;  // -1: moved from.
  std::string name_;
};

// The server ends, and its socket is gone, when this is destroyed.
struct OperatorServer {
  SocketAddress address;
  std::unique_ptr<grpc::Server> server;
};

// Serves `service` and grpc.health.v1 on the Unix domain socket at `path`, 0600: the file system says who may ask, and
// no certificate is needed. It has threads and connections of its own, so that it answers whatever the peer's port is
// busy with. `service`: not owned; must outlive the server. A socket that nobody listens on any more is replaced.
// Errors: InvalidArgument if the socket cannot be made, or another party listens there.
absl::StatusOr<OperatorServer> StartOperatorServer(const std::string& path, grpc::Service* service);

// The same for a socket that `field` names, with as many threads and messages of at most so many bytes.
struct SocketServerOptions {
  std::string field, path;
  int max_threads = 4;
  int64_t max_message_bytes = int64_t{4} << 20;
};
absl::StatusOr<OperatorServer> StartSocketServer(const SocketServerOptions& options,
                                                 const std::vector<grpc::Service*>& services);

// A listening socket at `path`, 0600, that does not block; a socket that nobody listens on any more is replaced.
// Errors: InvalidArgument, naming `field`, as StartOperatorServer.
absl::StatusOr<Descriptor> ListenAtSocket(const std::string& field, const std::string& path);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_OPERATIONS_OPERATOR_SERVER_H_
