#include "common/transport/connection_listener.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <list>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

#include "common/process/steady_time.h"
#include "common/status/status_macros.h"
#include "common/telemetry/log.h"
#include "common/transport/host_port.h"

namespace splitveil {
namespace {

constexpr absl::Duration kProofLimit = absl::Seconds(30);
constexpr absl::Duration kSweepPeriod = absl::Seconds(1);
constexpr absl::Duration kCheckPeriod = absl::Seconds(30);
constexpr absl::Duration kCheckLimit = absl::Seconds(5);
constexpr absl::Duration kPause = absl::Milliseconds(50);
constexpr int kUserTimeoutMillis = 20'000;  // Unacknowledged for so long: the reader was lost.
constexpr size_t kFilesOfARun = 96;         // A generous guess: ledger, data, checkpoints, gRPC.
constexpr size_t kLeastConnections = 8;

// A connection that gRPC has. `watched` is a second descriptor of the same socket: it shows when gRPC or the peer has
// ended the connection, and can end it, without touching a descriptor number that gRPC may have given back meanwhile.
struct Connection {
  Descriptor watched;
  int descriptor;  // gRPC's. Only looked at.
  ino_t socket;    // Its inode: tells whether `descriptor` is still this connection.
  std::string peer;
  SteadyTime accepted;
  bool proven = false;
  bool over = false;  // Ended; gRPC has still to give its descriptor back.

  bool IsUnproven() const { return !proven && !over; }
  // Both directions at once: gRPC sees the end of the stream and gives the descriptor back itself.
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
  // The number alone proves nothing: the system reuses it for the next file that is opened.
  bool HoldsDescriptor() const {
    struct stat facts = {};
    return fstat(descriptor, &facts) == 0 && facts.st_ino == socket;
  }
};

}  // namespace

ListenerWatch::ListenerWatch(int port, absl::Duration period, std::function<absl::Status()> check)
    : port_(port), period_(period), check_(std::move(check)) {
  try {
    // Without this thread the run still works; it only would not say why a peer cannot come back.
    thread_ = std::thread([this] { Run(); });
  } catch (const std::system_error& error) {
    LogWarning("port ", port_, " is not watched: no thread could be started: ", error.what());
  }
}

ListenerWatch::~ListenerWatch() {
  // Before the wake-up, or the thread would sleep another period.
  stopping_ = true;
  sleep_.Wake();
  if (thread_.joinable()) {
    thread_.join();
  }
}

void ListenerWatch::Run() {
  bool accepted = true;
  while (true) {
    sleep_.Until(SteadyAfter(period_));
    if (stopping_) {
      return;
    }
    // Only changes are logged: a port that stays closed would fill the log with one line every period.
    const absl::Status status = check_();
    if (!status.ok() && accepted) {
      LogWarning("port ", port_, " no longer accepts connections: ", status.message(),
                 "; a peer that loses its connection cannot return: find out who holds connections to this port, and "
                 "what limits this process");
    } else if (status.ok() && !accepted) {
      LogInfo("port ", port_, " accepts connections again");
    }
    accepted = status.ok();
  }
}

ConnectionLimits ConnectionLimits::OfThisProcess() {
  ConnectionLimits limits;
  rlimit files = {};
  // A run that is out of descriptors cannot write its ledger: strangers must not bring it there.
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
  std::unique_ptr<ListenerWatch> watch;
  WakeableSleep own_check_came;
  absl::Mutex checking;  // Held by a CheckAccepts under way; before `mutex`.
  absl::Mutex mutex;
  bool stopping ABSL_GUARDED_BY(mutex) = false;
  std::list<Connection> connections ABSL_GUARDED_BY(mutex);  // In the order they came.
  int64_t forgotten_unproven ABSL_GUARDED_BY(mutex) = 0;     // Of those that are no longer in the list.
  std::string own_check ABSL_GUARDED_BY(mutex);  // Who CheckAccepts comes as; empty: nobody, or it has come.

  State(ConnectionLimits limits_in, std::vector<Descriptor> sockets)
      : limits(limits_in), listening(std::move(sockets)), stop(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  void Run() ABSL_LOCKS_EXCLUDED(mutex);
  // Sleeps until something has happened, `pause`: other than that a connection waits; false once it is to stop.
  bool Wait(bool pause) ABSL_LOCKS_EXCLUDED(mutex);
  // Forgets connections that are over, and ends those that have proven nothing for too long.
  void Sweep() ABSL_LOCKS_EXCLUDED(mutex);
  // Accepts what waits at `socket_fd`; false if the process can take no further connection for now.
  bool AcceptAll(int socket_fd) ABSL_LOCKS_EXCLUDED(mutex);
  void Take(int socket_fd, Descriptor accepted, const sockaddr_storage& address) ABSL_LOCKS_EXCLUDED(mutex);
  // Whether one more may be accepted; if not, the oldest unproven one makes room.
  bool HasRoom() ABSL_LOCKS_EXCLUDED(mutex);
  // Whether it is CheckAccepts who has come.
  bool IsOwnCheck(const sockaddr_storage& address) ABSL_LOCKS_EXCLUDED(mutex);
  void ExpectOwnCheck(const std::string& name) ABSL_LOCKS_EXCLUDED(mutex);
  bool OwnCheckHasCome() ABSL_LOCKS_EXCLUDED(mutex);
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
  // Rebuilt in every round: connections come and go while the thread sleeps.
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
        waited.push_back({connection.watched.number(), 0, 0});  // POLLHUP and POLLERR are always reported.
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
    // gRPC does not tell when it closes a connection, so the second descriptor is asked.
    if (!connection.over && connection.HasEnded()) {
      connection.NoteEnd();
    } else if (connection.IsUnproven() && connection.accepted < latest) {
      // A stranger who shows no valid certificate and call in time gives the place free for the peer.
      connection.End();
    }
  }
  for (auto each = connections.begin(); each != connections.end();) {
    // Counted until gRPC has closed its side: its descriptor is still taken.
    if (each->over && !each->HoldsDescriptor()) {
      forgotten_unproven += each->proven ? 0 : 1;
      each = connections.erase(each);
    } else {
      ++each;
    }
  }
}

bool ConnectionListener::State::AcceptAll(int socket_fd) {
  // All that wait are taken in one go, so that a burst does not cost a poll each.
  while (HasRoom()) {
    sockaddr_storage address = {};
    socklen_t size = sizeof(address);
    Descriptor accepted(accept4(socket_fd, reinterpret_cast<sockaddr*>(&address), &size, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (accepted.number() >= 0) {
      // Our own check must not count as a stranger, nor take a stranger's place.
      if (IsOwnCheck(address)) {
        continue;
      }
      Take(socket_fd, std::move(accepted), address);
      continue;
    }
    if (errno == EAGAIN) {
      return true;
    }
    // Errors of this one connection only; EPERM comes from a firewall. The next one may still be accepted.
    constexpr int kOfOneConnection[] = {EINTR,       ECONNABORTED, EPERM,        EPROTO, ENETDOWN,
                                        ENETUNREACH, EHOSTDOWN,    EHOSTUNREACH, ENONET, ENOPROTOOPT};
    if (!absl::c_linear_search(kOfOneConnection, errno)) {
      const absl::MutexLock lock(&mutex);
      EndOldestUnproven();  // No descriptors or no memory for one more connection.
      return false;
    }
  }
  return false;
}

bool ConnectionListener::State::IsOwnCheck(const sockaddr_storage& address) {
  const absl::MutexLock lock(&mutex);
  if (own_check.empty() || own_check != NameOfPeer(address)) {
    return false;
  }
  // Expected once only: a stranger from the same port later is an ordinary connection.
  own_check.clear();
  own_check_came.Wake();
  return true;
}

void ConnectionListener::State::ExpectOwnCheck(const std::string& name) {
  const absl::MutexLock lock(&mutex);
  own_check = name;
}

bool ConnectionListener::State::OwnCheckHasCome() {
  const absl::MutexLock lock(&mutex);
  return own_check.empty();
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
  // Newcomers displace the oldest stranger: a flood can delay a peer, but not keep it out.
  const auto unproven = static_cast<size_t>(
      std::count_if(connections.begin(), connections.end(), [](const Connection& each) { return each.IsUnproven(); }));
  if (unproven >= limits.unproven || connections.size() >= limits.all) {
    EndOldestUnproven();
  }
  return connections.size() < limits.all && !stopping;
}

void ConnectionListener::State::Take(int socket_fd, Descriptor accepted, const sockaddr_storage& address) {
  // gRPC owns the first descriptor and tells nobody when it closes it; this one tells.
  Descriptor watched(fcntl(accepted.number(), F_DUPFD_CLOEXEC, 0));
  struct stat facts = {};
  if (watched.number() < 0 || fstat(accepted.number(), &facts) != 0) {
    return;
  }
  // Messages are whole steps: waiting for more to send would only add delay.
  SetOption(accepted.number(), IPPROTO_TCP, TCP_NODELAY, 1);
  SetOption(accepted.number(), IPPROTO_TCP, TCP_USER_TIMEOUT, kUserTimeoutMillis);
  {
    const absl::MutexLock lock(&mutex);
    // Listed before gRPC has it: the first call may be authorised at once.
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
  // Listening already before the server is built: the port that is announced is the one that was bound.
  auto state = std::make_unique<State>(limits, std::move(sockets));
  if (state->stop.number() < 0) {
    return absl::InternalError(absl::StrCat("the listener: no event could be made: ", std::strerror(errno)));
  }
  return std::unique_ptr<ConnectionListener>(new ConnectionListener(std::move(state)));
}

void ConnectionListener::EndAll() {
  const absl::MutexLock lock(&state_->mutex);
  state_->stopping = true;
  for (Connection& connection : state_->connections) {
    if (!connection.over) {
      connection.End();
    }
  }
}

ConnectionListener::~ConnectionListener() {
  state_->watch.reset();
  {
    const absl::MutexLock lock(&state_->mutex);
    state_->stopping = true;
  }
  // An event descriptor, since the thread waits in poll and on no condition variable.
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
  state_->watch = std::make_unique<ListenerWatch>(port(), kCheckPeriod, [this] { return CheckAccepts(kCheckLimit); });
  return absl::OkStatus();
}

void ConnectionListener::MarkAuthorised(absl::string_view peer) {
  const std::string name = WithoutBrackets(peer);
  const absl::MutexLock lock(&state_->mutex);
  // By name, since gRPC does not say its descriptor.
  for (Connection& connection : state_->connections) {
    connection.proven = connection.proven || connection.peer == name;
  }
}

absl::Status ConnectionListener::CheckAccepts(absl::Duration limit) {
  sockaddr_storage target = {}, own = {};
  socklen_t size = sizeof(target);
  const auto failed = [] {
    return absl::InternalError(absl::StrCat("the port could not be tried: ", std::strerror(errno)));
  };
  if (getsockname(state_->listening.front().number(), reinterpret_cast<sockaddr*>(&target), &size) != 0) {
    return failed();
  }
  // Through the port itself, as a peer would come: only that shows that the listening socket still works.
  OfThisMachine(target);
  own = target;
  PortIn(own) = 0;
  // The name is taken before it connects, so that the accepting side knows it.
  const Descriptor check(socket(target.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (target.ss_family == AF_INET6) {
    SetOption(check.number(), IPPROTO_IPV6, IPV6_V6ONLY, 0);  // As the listening socket has it.
  }
  if (check.number() < 0 || bind(check.number(), reinterpret_cast<const sockaddr*>(&own), size) != 0 ||
      getsockname(check.number(), reinterpret_cast<sockaddr*>(&own), &size) != 0) {
    return failed();
  }
  // One expected name at a time.
  const absl::MutexLock one_at_a_time(&state_->checking);
  const SteadyTime deadline = SteadyAfter(limit);
  state_->ExpectOwnCheck(NameOfPeer(own));
  if (connect(check.number(), reinterpret_cast<const sockaddr*>(&target), size) != 0 && errno != EINPROGRESS) {
    const int error = errno;
    state_->ExpectOwnCheck("");
    return absl::UnavailableError(std::strerror(error));
  }
  while (!state_->OwnCheckHasCome()) {
    if (SteadyNow() >= deadline) {
      state_->ExpectOwnCheck("");
      return absl::UnavailableError(absl::StrCat("not accepted within ", absl::FormatDuration(limit)));
    }
    state_->own_check_came.Until(deadline);
  }
  return absl::OkStatus();
}

int64_t ConnectionListener::turned_away() const {
  const absl::MutexLock lock(&state_->mutex);
  return state_->forgotten_unproven + std::count_if(state_->connections.begin(), state_->connections.end(),
                                                    [](const Connection& each) { return each.over && !each.proven; });
}

}  // namespace splitveil
