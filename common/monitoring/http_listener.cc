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
#include "absl/strings/str_cat.h"
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

absl::StatusOr<HttpListener::Tls> HttpListener::MakeTls(const MonitoringPlan& plan) {
  Tls tls(nullptr, &SSL_CTX_free);
  if (plan.is_loopback) {
    return tls;
  }
  tls.reset(SSL_CTX_new(TLS_server_method()));
  if (tls == nullptr || SSL_CTX_set_min_proto_version(tls.get(), TLS1_3_VERSION) != 1) {
    return absl::InternalError("party.monitoring: TLS 1.3 is not to be had");
  }
  if (SSL_CTX_use_certificate_chain_file(tls.get(), plan.identity.certificate_path.c_str()) != 1 ||
      SSL_CTX_use_PrivateKey_file(tls.get(), plan.identity.private_key_path.c_str(), SSL_FILETYPE_PEM) != 1) {
    return absl::InvalidArgumentError(absl::StrCat("party.monitoring: expected a certificate and its key, found ",
                                                   plan.identity.certificate_path, " and ",
                                                   plan.identity.private_key_path));
  }
  return tls;
}

absl::StatusOr<std::unique_ptr<HttpListener>> HttpListener::Start(const MonitoringPlan& plan,
                                                                  std::function<void(HttpConnection&)> serve) {
  SPLITVEIL_ASSIGN_OR_RETURN(Tls tls, MakeTls(plan));
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

HttpListener::HttpListener(std::vector<Descriptor> sockets, Tls tls, Descriptor stop, absl::Duration request_limit,
                           std::function<void(HttpConnection&)> serve)
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
    HttpConnection connection(std::move(accepted), tls_.get(), stop_.number(), SteadyAfter(request_limit_));
    if (connection.Begin()) {
      serve_(connection);
    }
  }
}

}  // namespace splitveil
