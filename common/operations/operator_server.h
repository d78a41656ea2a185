// The operator's own way to a party, which no peer can reach or crowd.
#ifndef SPLITVEIL_COMMON_OPERATIONS_OPERATOR_SERVER_H_
#define SPLITVEIL_COMMON_OPERATIONS_OPERATOR_SERVER_H_

#include <grpcpp/impl/service_type.h>
#include <grpcpp/server.h>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

#include "common/operations/run_status.h"

#include "splitveil/v1/operations.grpc.pb.h"
#include "splitveil/v1/party.pb.h"

namespace splitveil {

// splitveil.v1.Operations over a RunStatus. Thread-safe.
class OperationsService final : public v1::Operations::Service {
 public:
  // `status`: not owned; must outlive this.
  explicit OperationsService(const RunStatus* status) : status_(status) {}

  grpc::Status GetStatus(grpc::ServerContext* context, const v1::GetStatusRequest* request,
                         v1::GetStatusResponse* response) override;

 private:
  const RunStatus* status_;
};

// The party's status_socket; LEDGER.sock where none is configured.
std::string StatusSocketPath(const v1::PartyCommon& party);

// A Unix domain socket as gRPC names it, with its folder kept open: a path may be longer than the 107 bytes that a
// socket's address has. Movable, not copyable.
class SocketAddress {
 public:
  // Errors: InvalidArgument where the folder cannot be opened or the file's name is too long.
  static absl::StatusOr<SocketAddress> Of(const std::string& path);
  SocketAddress(SocketAddress&& other) noexcept;
  SocketAddress& operator=(SocketAddress&& other) noexcept;
  ~SocketAddress();

  // While this lives.
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
// Errors: InvalidArgument where the socket cannot be made, or another party listens there.
absl::StatusOr<OperatorServer> StartOperatorServer(const std::string& path, grpc::Service* service);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_OPERATIONS_OPERATOR_SERVER_H_
