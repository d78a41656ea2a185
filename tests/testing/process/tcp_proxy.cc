#include "tests/testing/process/tcp_proxy.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <ctime>
#include <gtest/gtest.h>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace splitveil::testing {
namespace {

constexpr std::chrono::nanoseconds kLongestWait = std::chrono::milliseconds(5);
constexpr size_t kChunkBytes = 16 << 10;
constexpr size_t kMostDelayedBytes = 16 << 20;

sockaddr_in Loopback(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

void Prepare(int descriptor) {
  const int on = 1;
  fcntl(descriptor, F_SETFL, O_NONBLOCK);
  setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

}  // namespace

TcpProxy::TcpProxy(absl::Duration delay)
    : delay_(absl::ToChronoNanoseconds(delay)),
      most_waiting_bytes_(delay > absl::ZeroDuration() ? kMostDelayedBytes : 0),
      listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof(address);
  EXPECT_EQ(bind(listener_, reinterpret_cast<const sockaddr*>(&address), size), 0);
  EXPECT_EQ(listen(listener_, 16), 0);
  EXPECT_EQ(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { Run(); });
}

TcpProxy::~TcpProxy() {
  stopped_ = true;
  thread_.join();
  for (Connection& connection : connections_) {
    Reset(connection);
  }
  close(listener_);
}

void TcpProxy::FaultAfter(const std::vector<Fault>& faults) {
  const absl::MutexLock lock(&mutex_);
  due_.assign(faults.begin(), faults.end());
}

void TcpProxy::CutAfter(const std::vector<int64_t>& bytes) {
  std::vector<Fault> cuts;
  cuts.reserve(bytes.size());
  for (const int64_t after : bytes) {
    cuts.push_back({after, FaultKind::kCut});
  }
  FaultAfter(cuts);
}

bool TcpProxy::WaitForCut() const {
  for (int millis = 0; cuts_ == 0 && millis < 120'000; ++millis) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  return cuts_ > 0;
}

void TcpProxy::Wait() const {
  const Clock::time_point now = Clock::now();
  std::chrono::nanoseconds wait = kLongestWait;
  std::vector<pollfd> entries = {{listener_, POLLIN, 0}};
  for (const Connection& connection : connections_) {
    for (int i = 0; i < 2 && !connection.frozen; ++i) {
      const Side& side = connection.sides[i];
      const bool reads = connection.sides[1 - i].to_write_bytes <= most_waiting_bytes_;  // Else its end reads slowly.
      const bool writes = !side.to_write.empty() && side.to_write.front().due <= now;
      if (!side.to_write.empty() && !writes) {
        wait = std::min<std::chrono::nanoseconds>(wait, side.to_write.front().due - now);
      }
      const int events = (reads ? POLLIN : 0) | (writes ? POLLOUT : 0);
      entries.push_back({side.descriptor, static_cast<short>(events), 0});  // NOLINT: poll's type.
    }
  }
  const timespec limit = {0, wait.count()};
  ppoll(entries.data(), entries.size(), &limit, nullptr);
}

void TcpProxy::Run() {
  while (!stopped_) {
    Wait();
    Accept();
    if (freeze_.exchange(false)) {
      for (Connection& connection : connections_) {
        connection.frozen = true;
      }
    }
    for (auto connection = connections_.begin(); connection != connections_.end();) {
      const bool there = connection->frozen || (!down_ && !cut_due_ && Forward(*connection));
      if (!there) {
        Reset(*connection);
      }
      connection = there ? std::next(connection) : connections_.erase(connection);
    }
    if (cut_due_) {
      cut_due_ = false;
      for (Connection& connection : connections_) {  // Those that came before the one that passed the limit.
        Reset(connection);
      }
      connections_.clear();
      ++cuts_;
    }
  }
}

void TcpProxy::Accept() {
  const int accepted = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  if (accepted < 0) {
    return;
  }
  Connection connection;
  connection.sides[0].descriptor = accepted;
  connection.sides[1].descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = Loopback(target_);
  const bool connected =
      !down_ && target_ != 0 &&
      connect(connection.sides[1].descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  if (!connected) {
    Reset(connection);
    return;
  }
  Prepare(connection.sides[0].descriptor);
  Prepare(connection.sides[1].descriptor);
  connections_.push_back(std::move(connection));
}

bool TcpProxy::Forward(Connection& connection) {
  return Flush(connection.sides[0]) && Flush(connection.sides[1]) &&
         ForwardOne(connection.sides[0], connection.sides[1]) && ForwardOne(connection.sides[1], connection.sides[0]);
}

bool TcpProxy::ForwardOne(Side& from, Side& to) {
  if (to.to_write_bytes > most_waiting_bytes_) {
    return true;
  }
  char buffer[kChunkBytes];
  const ssize_t count = read(from.descriptor, buffer, sizeof(buffer));
  if (count <= 0) {
    return count < 0 && (errno == EAGAIN || errno == EINTR);
  }
  Passing passing = {Clock::now() + delay_, std::string(buffer, static_cast<size_t>(count))};
  Disturb(passing.bytes);
  to.to_write_bytes += passing.bytes.size();
  to.to_write.push_back(std::move(passing));
  return Flush(to);
}

bool TcpProxy::Flush(Side& side) {
  const Clock::time_point now = Clock::now();
  while (!side.to_write.empty() && side.to_write.front().due <= now) {
    std::string& bytes = side.to_write.front().bytes;
    const ssize_t count = send(side.descriptor, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count < 0) {
      return errno == EAGAIN || errno == EINTR;
    }
    side.to_write_bytes -= static_cast<size_t>(count);
    bytes.erase(0, static_cast<size_t>(count));
    if (bytes.empty()) {
      side.to_write.pop_front();
    }
  }
  return true;
}

void TcpProxy::Disturb(std::string& passing) {
  Fault fault;
  {
    const absl::MutexLock lock(&mutex_);
    if (due_.empty() || (due_.front().after_bytes -= static_cast<int64_t>(passing.size())) > 0) {
      return;
    }
    fault = due_.front();
    due_.pop_front();
  }
  ++faults_;
  switch (fault.kind) {
    case FaultKind::kDown:
      down_ = true;
      cut_due_ = true;
      break;
    case FaultKind::kCut:
      cut_due_ = true;
      break;
    case FaultKind::kCorrupt:
      passing[passing.size() / 2] ^= 1;
      break;
    case FaultKind::kDuplicate:
      passing += passing;
      break;
    case FaultKind::kDelay:
      absl::SleepFor(absl::Milliseconds(fault.delay_millis));
      break;
  }
}

void TcpProxy::Reset(Connection& connection) {
  const linger now = {1, 0};  // With a reset: nothing that is under way arrives.
  for (Side& side : connection.sides) {
    if (side.descriptor >= 0) {
      setsockopt(side.descriptor, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
      close(side.descriptor);
      side.descriptor = -1;
    }
  }
}

}  // namespace splitveil::testing
