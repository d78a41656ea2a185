#include "common/workers/worker_group.h"

#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <arpa/inet.h>
#include <atomic>
#include <chrono>
#include <exception>
#include <gloo/allgatherv.h>
#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>
#include <numeric>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"

#include "common/process/steady_time.h"
#include "common/status/status_macros.h"
#include "common/workers/rendezvous.h"

namespace splitveil {
namespace {

constexpr uint64_t kSlot = 1;  // Of sends to single workers; Gloo numbers its collectives far above.
constexpr absl::Duration kWatchEvery = absl::Seconds(5);
constexpr absl::Duration kForEver = absl::Hours(24 * 365);
constexpr int kMostMisses = 3;  // Of the leader's answers, before it counts as gone.

// Gloo throws; its texts name files of its build. Not Unavailable, by which a session knows that its peer is lost, and
// waits for it.
template <typename Function>
absl::Status CatchGlooErrors(const char* what, const Function& function) {
  try {
    function();
    return absl::OkStatus();
  } catch (const std::exception&) {
    return absl::CancelledError(
        absl::StrCat("workers: ", what, ": another worker is gone, or silent for too long: see its log"));
  }
}

// Addresses that no router forwards to the internet: RFC 1918, RFC 6598, link-local, unique local, loopback.
bool IsPrivate(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    const uint32_t ip = ntohl(reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr);
    const auto within = [ip](uint32_t network, int bits) { return (ip ^ network) >> (32 - bits) == 0; };
    return within(0x0A000000, 8) || within(0xAC100000, 12) || within(0xC0A80000, 16) || within(0x64400000, 10) ||
           within(0xA9FE0000, 16) || within(0x7F000000, 8);
  }
  const in6_addr& ip = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&ip) || IN6_IS_ADDR_LINKLOCAL(&ip) || (ip.s6_addr[0] & 0xFE) == 0xFC;
}

// What Gloo asks of the others, from the rendezvous. Throws, as it expects.
class GlooStore final : public gloo::rendezvous::Store {
 public:
  explicit GlooStore(Rendezvous* rendezvous) : rendezvous_(rendezvous) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    Throw(rendezvous_->Put(key, std::string(data.begin(), data.end())));
  }
  std::vector<char> get(const std::string& key) override {
    const absl::StatusOr<std::string> value = rendezvous_->Get(key);
    Throw(value.status());
    return {value->begin(), value->end()};
  }
  void wait(const std::vector<std::string>& keys) override {
    for (const std::string& key : keys) {
      Throw(rendezvous_->Get(key).status());
    }
  }

  // Why it has thrown; OK: it has not.
  const absl::Status& status() const { return status_; }

 private:
  void Throw(const absl::Status& status) {
    status_.Update(status);
    if (!status.ok()) {
      throw std::runtime_error("rendezvous");
    }
  }

  Rendezvous* const rendezvous_;
  absl::Status status_;
};

}  // namespace

absl::Status CheckWorkerInterface(const std::string& name) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) {
    return absl::InternalError("network interfaces cannot be read");
  }
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owned(all, &freeifaddrs);
  bool found = false;
  bool is_private = true;  // All: Gloo takes the first, whatever it is.
  for (const ifaddrs* at = all; at != nullptr; at = at->ifa_next) {
    if (name == at->ifa_name && at->ifa_addr != nullptr &&
        (at->ifa_addr->sa_family == AF_INET || at->ifa_addr->sa_family == AF_INET6)) {
      found = true;
      is_private = is_private && IsPrivate(*at->ifa_addr);
    }
  }
  if (!found || !is_private) {
    return absl::InvalidArgumentError(absl::StrCat("workers.interface: expected a network interface with ",
                                                   found ? "private addresses alone" : "an address", ", found \"", name,
                                                   "\"",
                                                   found ? ", which has a public one: what workers exchange is "
                                                           "not encrypted"
                                                         : ""));
  }
  return absl::OkStatus();
}

RowShare ShareOf(int64_t rows, int rank, int size) {
  const int64_t first = (rows * rank + size - 1) / size;
  return {first, (rows * (rank + 1) + size - 1) / size - first};
}

struct WorkerGroup::State {
  WorkerPlace place;
  std::unique_ptr<Rendezvous> rendezvous;
  std::shared_ptr<gloo::rendezvous::Context> context;
  struct Transfer {
    std::unique_ptr<gloo::transport::UnboundBuffer> buffer;
    bool receives = false;
  };
  std::vector<Transfer> transfers;
  double seconds = 0;   // In exchanges.
  absl::Status failed;  // The first failure: after it nothing is waited for.

  // Calls `function` unless something has failed.
  template <typename Function>
  absl::Status Try(const char* what, const Function& function) {
    const SteadyTime since = SteadyNow();
    if (failed.ok()) {
      failed = CatchGlooErrors(what, function);
    }
    seconds += SecondsSince(since);
    return failed;
  }

  // Of a follower: asks whether the leader is there, as a machine that is lost closes no connection.
  absl::Mutex mutex;
  gloo::transport::UnboundBuffer* awaited ABSL_GUARDED_BY(mutex) = nullptr;  // What the leader is to send.
  bool leader_gone ABSL_GUARDED_BY(mutex) = false;
  std::atomic<bool> ended{false};
  WakeableSleep sleep;
  std::thread watch;

  ~State() {
    if (watch.joinable()) {
      ended = true;
      sleep.Wake();
      watch.join();
    }
  }

  void Watch() {
    int misses = 0;
    while (true) {
      sleep.Until(SteadyAfter(kWatchEvery));
      if (ended) {
        return;
      }
      const absl::Status alive = rendezvous->Watch();
      misses = alive.ok() ? 0 : misses + 1;
      // Another start's leader answers at once that this group is over.
      if (misses == kMostMisses || absl::IsFailedPrecondition(alive)) {
        const absl::MutexLock lock(&mutex);
        leader_gone = true;
        if (awaited != nullptr) {
          awaited->abortWaitRecv();
        }
        return;
      }
    }
  }

  // Whether to wait for it.
  bool SetAwaited(gloo::transport::UnboundBuffer* buffer) ABSL_LOCKS_EXCLUDED(mutex) {
    const absl::MutexLock lock(&mutex);
    awaited = buffer;
    return !leader_gone;
  }

  void Begin(int rank, void* data, size_t bytes, bool receives) {
    if (bytes == 0) {
      return;
    }
    (void)Try("exchange", [&] {
      Transfer transfer{context->createUnboundBuffer(data, bytes), receives};
      if (receives) {
        transfer.buffer->recv(rank, kSlot);
      } else {
        transfer.buffer->send(rank, kSlot);
      }
      transfers.push_back(std::move(transfer));
    });
  }
};

absl::StatusOr<std::unique_ptr<WorkerGroup>> WorkerGroup::Join(const Options& options) {
  SPLITVEIL_RETURN_IF_ERROR(CheckWorkerInterface(options.interface));
  auto state = std::make_unique<State>();
  state->place = options.place;
  SPLITVEIL_ASSIGN_OR_RETURN(state->rendezvous,
                             Rendezvous::Meet(options.place, options.identity, options.settings, options.deadline));
  GlooStore store(state->rendezvous.get());
  absl::Status connected = CatchGlooErrors("connections", [&] {
    gloo::transport::tcp::attr attributes;
    attributes.iface = options.interface;
    std::shared_ptr<gloo::transport::Device> device = gloo::transport::tcp::CreateDevice(attributes);
    state->context = std::make_shared<gloo::rendezvous::Context>(options.place.rank, options.place.size);
    state->context->setTimeout(absl::ToChronoMilliseconds(options.patience));
    state->context->connectFullMesh(store, device);
  });
  SPLITVEIL_RETURN_IF_ERROR(store.status());
  SPLITVEIL_RETURN_IF_ERROR(connected);
  if (!options.place.leads()) {
    State* const watching = state.get();
    try {
      state->watch = std::thread([watching] { watching->Watch(); });
    } catch (const std::system_error&) {
      return absl::InternalError("workers: no thread could be started");
    }
  }
  return std::unique_ptr<WorkerGroup>(new WorkerGroup(std::move(state)));
}

WorkerGroup::WorkerGroup(std::unique_ptr<State> state) : state_(std::move(state)) {}
WorkerGroup::~WorkerGroup() = default;

int WorkerGroup::rank() const { return state_->place.rank; }
int WorkerGroup::size() const { return state_->place.size; }

double WorkerGroup::exchange_seconds() const { return state_->seconds; }

void WorkerGroup::Send(int rank, const void* data, size_t bytes) {
  // Gloo has one kind of buffer for both directions; it does not write to one that is sent.
  state_->Begin(rank, const_cast<void*>(data), bytes, /*receives=*/false);
}

void WorkerGroup::Receive(int rank, void* data, size_t bytes) { state_->Begin(rank, data, bytes, /*receives=*/true); }

absl::Status WorkerGroup::Wait() {
  // Together, not each: what one worker leaves out, it leaves out of all of them.
  const SteadyTime deadline = SteadyNow() + state_->context->getTimeout();
  for (State::Transfer& transfer : state_->transfers) {
    (void)state_->Try("exchange", [&] {
      const auto left = std::max(std::chrono::duration_cast<std::chrono::milliseconds>(deadline - SteadyNow()),
                                 std::chrono::milliseconds(1));
      const bool done =
          transfer.receives ? transfer.buffer->waitRecv(nullptr, left) : transfer.buffer->waitSend(nullptr, left);
      if (!done) {
        throw std::runtime_error("aborted");
      }
    });
  }
  state_->transfers.clear();
  return state_->failed;
}

absl::Status WorkerGroup::AwaitLeader(void* data, size_t bytes) {
  const std::unique_ptr<gloo::transport::UnboundBuffer> buffer = state_->context->createUnboundBuffer(data, bytes);
  const bool may_wait = state_->SetAwaited(buffer.get());
  absl::Status status = state_->Try("wait for rank 0", [&] {
    buffer->recv(0, kSlot);
    if (!may_wait || !buffer->waitRecv(absl::ToChronoMilliseconds(kForEver))) {
      throw std::runtime_error("aborted");
    }
  });
  state_->SetAwaited(nullptr);
  return status;
}

absl::Status WorkerGroup::Sum(absl::Span<float> values) {
  if (values.empty()) {
    return absl::OkStatus();
  }
  return state_->Try("sum of gradients", [&] {
    gloo::AllreduceOptions options(state_->context);
    options.setOutput(values.data(), values.size());
    // The order of the sums depends on the number of workers alone.
    options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
    options.setReduceFunction(static_cast<void (*)(void*, const void*, const void*, size_t)>(&gloo::sum<float>));
    gloo::allreduce(options);
  });
}

absl::StatusOr<std::vector<char>> WorkerGroup::Gather(absl::Span<const char> own, const std::vector<size_t>& bytes) {
  std::vector<char> all(std::accumulate(bytes.begin(), bytes.end(), size_t{0}));
  if (all.empty()) {
    return all;
  }
  SPLITVEIL_RETURN_IF_ERROR(state_->Try("gradients of embeddings", [&] {
    gloo::AllgathervOptions options(state_->context);
    options.setInput(const_cast<char*>(own.data()), own.size());
    options.setOutput(all.data(), bytes);
    gloo::allgatherv(options);
  }));
  return all;
}

}  // namespace splitveil
