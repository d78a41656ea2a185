// The listening socket of a server, in place of gRPC's own.
//
// gRPC 1.51 gives a listening socket up for good once the process has no file descriptor left for a connection
// (CVE-2023-4785), and it counts no connections: anyone who reaches the port, without a certificate, ends a run that
// way. So this class accepts connections, and hands them to gRPC, which does all the rest.
#ifndef SPLITVEIL_COMMON_TRANSPORT_CONNECTION_LISTENER_H_
#define SPLITVEIL_COMMON_TRANSPORT_CONNECTION_LISTENER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <grpcpp/server_builder.h>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "common/process/steady_time.h"

namespace splitveil {

// Asks every `period`, in a thread of its own, whether the port accepts, and says so in the log when it no longer does
// and when it does again. A run continues: its connection may be well, and a peer that has lost it and finds no way
// back ends the run by the agreement's limits, at both parties. Thread-safe.
class ListenerWatch {
 public:
  // `check`: ConnectionListener::CheckAccepts; must stay callable as long as this lives. `port`: for the log. Without a
  // thread left it watches nothing.
  ListenerWatch(int port, absl::Duration period, std::function<absl::Status()> check);
  ~ListenerWatch();
  ListenerWatch(const ListenerWatch&) = delete;
  ListenerWatch& operator=(const ListenerWatch&) = delete;

 private:
  void Run();

  const int port_;
  const absl::Duration period_;
  const std::function<absl::Status()> check_;
  std::atomic<bool> stopping_{false};
  WakeableSleep sleep_;
  std::thread thread_;  // Last: uses all above.
};

// What one server holds at a time. A run needs one connection of the peer and, now and then, one of the operator.
struct ConnectionLimits {
  // Without an authorised call yet: in the handshake, or not begun it. The oldest is closed if a new one needs its
  // place.
  size_t unproven = 64;
  // With those that have made an authorised call, which stay. A further one waits.
  size_t all = 128;

  // These numbers, or fewer if the process may open few files: each connection takes two descriptors.
  static ConnectionLimits OfThisProcess();
};

// Listens from Create on and accepts from Serve on, in a thread of its own, until it is destroyed. What goes wrong with
// one connection, or with descriptors or memory for a while, never ends it; every half a minute it tries its own port,
// and the log says when that accepts no more (ListenerWatch). A connection that has made no authorised call after 30
// seconds is closed. Thread-safe.
class ConnectionListener {
 public:
  // `address`: host:port; port 0 takes a free one; 0.0.0.0 is every address of the machine, IPv6 included if there
  // is IPv6. Errors: InvalidArgument, naming `field`, if the address cannot be listened at.
  static absl::StatusOr<std::unique_ptr<ConnectionListener>> Create(absl::string_view field, const std::string& address,
                                                                    ConnectionLimits limits);
  ~ConnectionListener();
  ConnectionListener(const ConnectionListener&) = delete;
  ConnectionListener& operator=(const ConnectionListener&) = delete;

  int port() const;
  // Once, when the server that `acceptor` belongs to has started. Errors: Internal if no thread can be started.
  absl::Status Serve(std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor);
  // Accepts no more and ends all connections: their peers see that the server is gone. A call that comes while gRPC
  // shuts down would end with CANCELLED, as if the peer had wanted it.
  void EndAll();
  // A call of this peer, as grpc::ServerContext::peer names it, has been authorised.
  void MarkAuthorised(absl::string_view peer);
  // Whether a connection to the port is accepted within `limit`: makes one, which counts for nothing and is closed.
  // Errors: Unavailable if it is not; Internal if this process could not try.
  absl::Status CheckAccepts(absl::Duration limit);
  // Connections so far that ended without an authorised call: strangers, and peers that were not taken for one, who
  // have another authority or name in their certificate, or whose own checks said no to ours.
  int64_t turned_away() const;

 private:
  struct State;
  explicit ConnectionListener(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_TRANSPORT_CONNECTION_LISTENER_H_
