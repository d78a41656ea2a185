// Threads that take HTTP connections, so few that they cannot get in the way of a run.
#ifndef SPLITVEIL_COMMON_MONITORING_HTTP_LISTENER_H_
#define SPLITVEIL_COMMON_MONITORING_HTTP_LISTENER_H_

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "common/monitoring/http_connection.h"
#include "common/monitoring/monitoring_plan.h"
#include "common/monitoring/page_tls.h"
#include "common/process/runtime.h"
#include "common/transport/listening_socket.h"

namespace splitveil {

// Each of kThreads threads takes one connection after the other and hands it to `serve`; more wait in the kernel. They
// yield to the threads of the run (a nice value of their own). Thread-safe.
class HttpListener {
 public:
  static constexpr int kThreads = 4;

  // `serve`: thread-safe; serves one request. `requests`: as IdentityReloader's: connections after one show the renewed
  // certificate. Errors: InvalidArgument, naming the field, where it cannot listen, or a certificate or key cannot be
  // used.
  static absl::StatusOr<std::unique_ptr<HttpListener>> Start(const MonitoringPlan& plan,
                                                             std::function<void(HttpConnection&)> serve,
                                                             int (*requests)() = &ReloadRequests);
  // Waits for requests under way, which get no more time to be sent or received.
  ~HttpListener();
  HttpListener(const HttpListener&) = delete;
  HttpListener& operator=(const HttpListener&) = delete;

  int port() const { return PortOf(sockets_.front()); }

 private:
  HttpListener(std::vector<Descriptor> sockets, std::unique_ptr<PageTls> tls, Descriptor stop,
               absl::Duration request_limit, std::function<void(HttpConnection&)> serve);
  void Run() const;
  // The next connection; -1: none is left, or stopped.
  Descriptor Accept() const;

  const std::vector<Descriptor> sockets_;
  const std::unique_ptr<PageTls> tls_;  // Null: HTTP.
  const Descriptor stop_;
  const absl::Duration request_limit_;
  const std::function<void(HttpConnection&)> serve_;
  std::vector<std::thread> threads_;  // Last: use all above.
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_MONITORING_HTTP_LISTENER_H_
