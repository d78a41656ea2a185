#include "common/monitoring/http_listener.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "common/process/steady_time.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

constexpr int kPauseMillis = 100;
constexpr int kNice = 10;

// Of this thread, which Linux counts as a process of its own.
void YieldToTheRun() { (void)setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kNice); }

// What comes for the process is the run's to handle.
void BlockSignals() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

}  // namespace

absl::StatusOr<std::unique_ptr<HttpListener>> HttpListener::Start(const MonitoringPlan& plan,
                                                                  std::function<void(HttpConnection&)> serve,
                                                                  int (*requests)()) {
  std::unique_ptr<PageTls> tls;
  if (!plan.is_loopback) {
    SPLITVEIL_ASSIGN_OR_RETURN(tls, PageTls::Create(plan.identity, requests));
  }
  SPLITVEIL_ASSIGN_OR_RETURN(std::vector<Descriptor> sockets,
                             ListenAtAll("party.monitoring.listen_address", plan.listen_address));
  Descriptor stop(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (stop.number() < 0) {
    return absl::InternalError("party.monitoring: no descriptor is left");
  }
  std::unique_ptr<HttpListener> listener(
      new HttpListener(std::move(sockets), std::move(tls), std::move(stop), plan.request_limit, std::move(serve)));
  for (int i = 0; i < kThreads; ++i) {
    listener->threads_.emplace_back([started = listener.get()] { started->Run(); });
  }
  return listener;
}

HttpListener::HttpListener(std::vector<Descriptor> sockets, std::unique_ptr<PageTls> tls, Descriptor stop,
                           absl::Duration request_limit, std::function<void(HttpConnection&)> serve)
    : sockets_(std::move(sockets)),
      tls_(std::move(tls)),
      stop_(std::move(stop)),
      request_limit_(request_limit),
      serve_(std::move(serve)) {}

HttpListener::~HttpListener() {
  const uint64_t one = 1;
  (void)!write(stop_.number(), &one, sizeof(one));
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

Descriptor HttpListener::Accept() const {
  std::vector<pollfd> polled = {{stop_.number(), POLLIN, 0}};
  for (const Descriptor& socket : sockets_) {
    polled.push_back({socket.number(), POLLIN, 0});
  }
  while (true) {
    (void)poll(polled.data(), polled.size(), -1);
    if (polled.front().revents != 0) {
      return Descriptor();
    }
    for (const Descriptor& socket : sockets_) {
      Descriptor accepted(accept4(socket.number(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (accepted.number() >= 0) {
        return accepted;
      }
      if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
        (void)poll(polled.data(), 1, kPauseMillis);  // No descriptor is left: somebody may close one.
      }
    }
  }
}

void HttpListener::Run() const {
  BlockSignals();
  YieldToTheRun();
  for (Descriptor accepted = Accept(); accepted.number() >= 0; accepted = Accept()) {
    const std::shared_ptr<SSL_CTX> tls = tls_ == nullptr ? nullptr : tls_->Current();
    HttpConnection connection(std::move(accepted), tls.get(), stop_.number(), SteadyAfter(request_limit_));
    if (connection.Begin()) {
      serve_(connection);
    }
  }
}

}  // namespace splitveil
