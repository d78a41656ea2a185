#include "common/transport/connection_listener.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <list>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

#include "common/process/steady_time.h"
#include "common/status/status_macros.h"
#include "common/transport/host_port.h"

namespace splitveil {
namespace {

constexpr absl::Duration kProofLimit = absl::Seconds(30);
constexpr absl::Duration kSweepPeriod = absl::Seconds(1);
constexpr absl::Duration kPause = absl::Milliseconds(50);
constexpr int kUserTimeoutMillis = 20'000;  // What was sent and is not acknowledged for so long has no reader any more.
constexpr size_t kFilesOfARun = 96;         // Ledger, data, checkpoints, gRPC's own; generously.
constexpr size_t kLeastConnections = 8;

class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) {
      close(number_);
    }
  }
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int number() const { return number_; }
  int Release() { return std::exchange(number_, -1); }

 private:
  int number_;
};

// As gRPC names peers, but for the brackets of IPv6, which its versions write differently: "ipv4:127.0.0.1:80",
// "ipv6:::1:80". IPv4 over an IPv6 socket is IPv4.
std::string NameOfPeer(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    inet_ntop(AF_INET, &v4.sin_addr, text, sizeof(text));
    return absl::StrCat("ipv4:", text, ":", ntohs(v4.sin_port));
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
    inet_ntop(AF_INET, &v6.sin6_addr.s6_addr[12], text, sizeof(text));
    return absl::StrCat("ipv4:", text, ":", ntohs(v6.sin6_port));
  }
  inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof(text));
  const std::string scope = v6.sin6_scope_id == 0 ? "" : absl::StrCat("%25", v6.sin6_scope_id);  // Of a link.
  return absl::StrCat("ipv6:", text, scope, ":", ntohs(v6.sin6_port));
}

std::string WithoutBrackets(absl::string_view peer) {
  return absl::StrReplaceAll(peer, {{"%5B", ""}, {"%5D", ""}, {"[", ""}, {"]", ""}});
}

void SetOption(int descriptor, int level, int option, int value) {
  (void)setsockopt(descriptor, level, option, &value, sizeof(value));
}

int PortOf(const Descriptor& socket_owner) {
  sockaddr_storage bound = {};
  socklen_t size = sizeof(bound);
  if (getsockname(socket_owner.number(), reinterpret_cast<sockaddr*>(&bound), &size) != 0) {
    return 0;
  }
  return ntohs(bound.ss_family == AF_INET ? reinterpret_cast<const sockaddr_in&>(bound).sin_port
                                          : reinterpret_cast<const sockaddr_in6&>(bound).sin6_port);
}

// Listens at `address`, of `size` bytes. An errno where it cannot.
std::pair<Descriptor, int> ListenAt(const sockaddr* address, socklen_t size) {
  Descriptor listening(socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (listening.number() < 0) {
    return {Descriptor(), errno};
  }
  // A port whose last connections have just ended is free; a second server on it would be refused.
  SetOption(listening.number(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (address->sa_family == AF_INET6) {
    SetOption(listening.number(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  }
  if (bind(listening.number(), address, size) != 0 || listen(listening.number(), SOMAXCONN) != 0) {
    return {Descriptor(), errno};
  }
  return {std::move(listening), 0};
}

// One socket, or one for each address that a host name has.
absl::StatusOr<std::vector<Descriptor>> ListenAtAll(absl::string_view field, const std::string& address) {
  const auto refused = [&](absl::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ": expected a free host:port, found ", address, why.empty() ? "" : ": ", why));
  };
  SPLITVEIL_ASSIGN_OR_RETURN(const HostPort place, ParseHostPort(field, address));
  std::vector<Descriptor> sockets;
  if (place.host == "0.0.0.0") {
    sockaddr_in6 any = {};
    any.sin6_family = AF_INET6;
    any.sin6_addr = in6addr_any;
    any.sin6_port = htons(place.port);
    auto [listening, error] = ListenAt(reinterpret_cast<const sockaddr*>(&any), sizeof(any));
    if (error == 0) {
      sockets.push_back(std::move(listening));
      return sockets;
    }  // A machine without IPv6, or a taken port, as IPv4 will tell.
  }
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int resolved = getaddrinfo(place.host.c_str(), absl::StrCat(place.port).c_str(), &hints, &found);
  if (resolved != 0) {
    return refused(gai_strerror(resolved));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(found, &freeaddrinfo);
  int last_error = 0;
  for (addrinfo* info = found; info != nullptr; info = info->ai_next) {
    if (place.port == 0 && !sockets.empty()) {  // All on the port that the first one got.
      const auto port = htons(static_cast<uint16_t>(PortOf(sockets.front())));
      (info->ai_family == AF_INET ? reinterpret_cast<sockaddr_in*>(info->ai_addr)->sin_port
                                  : reinterpret_cast<sockaddr_in6*>(info->ai_addr)->sin6_port) = port;
    }
    auto [listening, error] = ListenAt(info->ai_addr, info->ai_addrlen);
    if (error == 0) {
      sockets.push_back(std::move(listening));
    } else {
      last_error = error;
    }
  }
  if (sockets.empty()) {
    return refused(std::strerror(last_error));
  }
  return sockets;
}

// A connection that gRPC has. `watched` is another descriptor of the same socket: it tells when gRPC or the peer has
// ended the connection, and ends it where it must, without touching a number that gRPC may have given back meanwhile.
struct Connection {
  Descriptor watched;
  int descriptor;  // gRPC's. Only looked at.
  ino_t socket;    // What it is a descriptor of as long as it is this connection's.
  std::string peer;
  SteadyTime accepted;
  bool proven = false;
  bool over = false;  // Ended; gRPC has still to give its descriptor back.

  bool IsUnproven() const { return !proven && !over; }
  void End() {
    shutdown(watched.number(), SHUT_RDWR);
    NoteEnd();
  }
  void NoteEnd() {
    watched = Descriptor();
    over = true;
  }
  bool HasEnded() const {
    pollfd state = {watched.number(), 0, 0};
    return poll(&state, 1, 0) > 0;
  }
  bool HoldsDescriptor() const {
    struct stat facts = {};
    return fstat(descriptor, &facts) == 0 && facts.st_ino == socket;
  }
};

}  // namespace

ConnectionLimits ConnectionLimits::OfThisProcess() {
  ConnectionLimits limits;
  rlimit files = {};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < kFilesOfARun + 2 * limits.all) {
    const size_t left = files.rlim_cur > kFilesOfARun ? (files.rlim_cur - kFilesOfARun) / 2 : 0;
    limits.all = std::max(kLeastConnections, left);
    limits.unproven = limits.all / 2;
  }
  return limits;
}

struct ConnectionListener::State {
  const ConnectionLimits limits;
  const std::vector<Descriptor> listening;
  const Descriptor stop;  // An event.
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor;
  std::thread thread;
  absl::Mutex mutex;
  bool stopping ABSL_GUARDED_BY(mutex) = false;
  std::list<Connection> connections ABSL_GUARDED_BY(mutex);  // In the order they came.
  int64_t forgotten_unproven ABSL_GUARDED_BY(mutex) = 0;     // Of those that are no longer in the list.

  State(ConnectionLimits limits_in, std::vector<Descriptor> sockets)
      : limits(limits_in), listening(std::move(sockets)), stop(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  void Run() ABSL_LOCKS_EXCLUDED(mutex);
  // Sleeps until something has happened, `pause`: other than that a connection waits; false once it is to stop.
  bool Wait(bool pause) ABSL_LOCKS_EXCLUDED(mutex);
  // Forgets connections that are over, and ends those that have proven nothing for too long.
  void Sweep() ABSL_LOCKS_EXCLUDED(mutex);
  // Accepts what waits at `socket_fd`; false where the process can take no further connection for now.
  bool AcceptAll(int socket_fd) ABSL_LOCKS_EXCLUDED(mutex);
  void Take(int socket_fd, Descriptor accepted, const sockaddr_storage& address) ABSL_LOCKS_EXCLUDED(mutex);
  // Whether another one may be accepted; where not, the oldest unproven one makes room.
  bool HasRoom() ABSL_LOCKS_EXCLUDED(mutex);
  void EndOldestUnproven() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
};

void ConnectionListener::State::Run() {
  bool pause = false;
  while (Wait(pause)) {
    Sweep();
    pause = false;
    for (const Descriptor& socket_owner : listening) {
      pause = !AcceptAll(socket_owner.number()) || pause;
    }
  }
}

bool ConnectionListener::State::Wait(bool pause) {
  std::vector<pollfd> waited = {{stop.number(), POLLIN, 0}};
  absl::Duration period = pause ? kPause : kSweepPeriod;
  {
    const absl::MutexLock lock(&mutex);
    if (stopping) {
      return false;
    }
    for (const Connection& connection : connections) {
      if (connection.over) {
        period = kPause;
      } else {
        waited.push_back({connection.watched.number(), 0, 0});  // POLLHUP and POLLERR come unasked.
      }
    }
  }
  if (!pause) {  // Else what waits and cannot be accepted would wake the thread again and again.
    for (const Descriptor& socket_owner : listening) {
      waited.push_back({socket_owner.number(), POLLIN, 0});
    }
  }
  (void)poll(waited.data(), waited.size(), static_cast<int>(absl::ToInt64Milliseconds(period)));
  return true;
}

void ConnectionListener::State::Sweep() {
  const SteadyTime latest = SteadyNow() - absl::ToChronoNanoseconds(kProofLimit);
  const absl::MutexLock lock(&mutex);
  for (Connection& connection : connections) {
    if (!connection.over && connection.HasEnded()) {
      connection.NoteEnd();
    } else if (connection.IsUnproven() && connection.accepted < latest) {
      connection.End();
    }
  }
  for (auto each = connections.begin(); each != connections.end();) {
    if (each->over && !each->HoldsDescriptor()) {
      forgotten_unproven += each->proven ? 0 : 1;
      each = connections.erase(each);
    } else {
      ++each;
    }
  }
}

bool ConnectionListener::State::AcceptAll(int socket_fd) {
  while (HasRoom()) {
    sockaddr_storage address = {};
    socklen_t size = sizeof(address);
    Descriptor accepted(accept4(socket_fd, reinterpret_cast<sockaddr*>(&address), &size, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (accepted.number() >= 0) {
      Take(socket_fd, std::move(accepted), address);
      continue;
    }
    switch (errno) {
      case EAGAIN:
        return true;
      case EINTR:
      case ECONNABORTED:
      case EPERM:  // A firewall's.
      case EPROTO:
      case ENETDOWN:
      case ENETUNREACH:
      case EHOSTDOWN:
      case EHOSTUNREACH:
      case ENONET:
      case ENOPROTOOPT:
        break;  // Of this one connection.
      default: {
        const absl::MutexLock lock(&mutex);
        EndOldestUnproven();  // No descriptor is left, or no memory.
        return false;
      }
    }
  }
  return false;
}

void ConnectionListener::State::EndOldestUnproven() {
  const auto oldest =
      std::find_if(connections.begin(), connections.end(), [](const Connection& each) { return each.IsUnproven(); });
  if (oldest != connections.end()) {
    oldest->End();
  }
}

bool ConnectionListener::State::HasRoom() {
  const absl::MutexLock lock(&mutex);
  const auto unproven = static_cast<size_t>(
      std::count_if(connections.begin(), connections.end(), [](const Connection& each) { return each.IsUnproven(); }));
  if (unproven >= limits.unproven || connections.size() >= limits.all) {
    EndOldestUnproven();
  }
  return connections.size() < limits.all && !stopping;
}

void ConnectionListener::State::Take(int socket_fd, Descriptor accepted, const sockaddr_storage& address) {
  Descriptor watched(fcntl(accepted.number(), F_DUPFD_CLOEXEC, 0));
  struct stat facts = {};
  if (watched.number() < 0 || fstat(accepted.number(), &facts) != 0) {
    return;
  }
  SetOption(accepted.number(), IPPROTO_TCP, TCP_NODELAY, 1);
  SetOption(accepted.number(), IPPROTO_TCP, TCP_USER_TIMEOUT, kUserTimeoutMillis);
  {
    const absl::MutexLock lock(&mutex);
    connections.push_back({std::move(watched), accepted.number(), facts.st_ino, NameOfPeer(address), SteadyNow()});
  }
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
  connection.listener_fd = socket_fd;
  connection.fd = accepted.Release();
  acceptor->HandleNewConnection(&connection);
}

ConnectionListener::ConnectionListener(std::unique_ptr<State> state) : state_(std::move(state)) {}

absl::StatusOr<std::unique_ptr<ConnectionListener>> ConnectionListener::Create(absl::string_view field,
                                                                               const std::string& address,
                                                                               ConnectionLimits limits) {
  SPLITVEIL_ASSIGN_OR_RETURN(std::vector<Descriptor> sockets, ListenAtAll(field, address));
  auto state = std::make_unique<State>(limits, std::move(sockets));
  if (state->stop.number() < 0) {
    return absl::InternalError(absl::StrCat("the listener: no event could be made: ", std::strerror(errno)));
  }
  return std::unique_ptr<ConnectionListener>(new ConnectionListener(std::move(state)));
}

ConnectionListener::~ConnectionListener() {
  {
    const absl::MutexLock lock(&state_->mutex);
    state_->stopping = true;
  }
  (void)eventfd_write(state_->stop.number(), 1);
  if (state_->thread.joinable()) {
    state_->thread.join();
  }
}

int ConnectionListener::port() const { return PortOf(state_->listening.front()); }

absl::Status ConnectionListener::Serve(std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor) {
  state_->acceptor = std::move(acceptor);
  try {
    state_->thread = std::thread([this] { state_->Run(); });
  } catch (const std::system_error& error) {
    return absl::InternalError(absl::StrCat("the listener's thread could not be started: ", error.what()));
  }
  return absl::OkStatus();
}

void ConnectionListener::Prove(absl::string_view peer) {
  const std::string name = WithoutBrackets(peer);
  const absl::MutexLock lock(&state_->mutex);
  for (Connection& connection : state_->connections) {
    connection.proven = connection.proven || connection.peer == name;
  }
}

int64_t ConnectionListener::turned_away() const {
  const absl::MutexLock lock(&state_->mutex);
  return state_->forgotten_unproven + std::count_if(state_->connections.begin(), state_->connections.end(),
                                                    [](const Connection& each) { return each.over && !each.proven; });
}

}  // namespace splitveil
