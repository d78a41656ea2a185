// Threads that take HTTP connections, so few that they cannot get in the way of a run.
#ifndef SPLITVEIL_COMMON_MONITORING_HTTP_LISTENER_H_
#define SPLITVEIL_COMMON_MONITORING_HTTP_LISTENER_H_

#include <httplib.h>
#include <sys/types.h>

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <openssl/ssl.h>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

#include "common/monitoring/monitoring_plan.h"
#include "common/process/runtime.h"
#include "common/process/steady_time.h"
#include "common/transport/certificate.h"
#include "common/transport/credentials.h"
#include "common/transport/host_port.h"

namespace splitveil {

// TLS 1.3 and nothing older, as a server that asks for no certificate. Thread-safe.
class PageTls {
 public:
  // `requests`: as IdentityReloader's. Errors: InvalidArgument if the identity's files are no certificate and its
  // key.
  static absl::StatusOr<std::unique_ptr<PageTls>> Create(const TlsIdentity& identity, int (*requests)());

  // For the next connection: of the files as they are, once they are to be read again. Files that cannot be used change
  // nothing.
  std::shared_ptr<SSL_CTX> Current() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  PageTls(const TlsIdentity& identity, int (*requests)()) : identity_(identity, requests) {}

  IdentityReloader identity_;
  absl::Mutex mutex_;
  std::shared_ptr<SSL_CTX> context_ ABSL_GUARDED_BY(mutex_);
};

// What cpp-httplib reads a request from and writes its answer to. Whatever the client does, it lasts until the deadline
// at most, and reads kMaxRequestBytes at most, unless Allow says more, up to the field name of a Range: cpp-httplib
// would answer with a part for each of thousands of ranges, and before that reads them by std::regex, whose recursion
// overflows a stack of 2 MiB. It answers such a request with 400. Not thread-safe.
class HttpConnection final : public httplib::Stream {
 public:
  static constexpr size_t kMaxRequestBytes = 16 << 10;

  // `tls`: null: none. `stop`: a descriptor that becomes readable once nothing more is to be done. Both not owned; must
  // outlive this.
  HttpConnection(Descriptor socket, SSL_CTX* tls, int stop, SteadyTime deadline);
  ~HttpConnection() override;

  // The TLS handshake, if there is TLS. Call first. False: the connection cannot be used.
  bool Begin();
  // More time, and more bytes in all, for a client that has shown who it is.
  void Allow(SteadyTime deadline, size_t max_bytes) {
    deadline_ = deadline;
    max_bytes_ = max_bytes;
  }

  bool is_readable() const override { return true; }
  bool is_writable() const override { return true; }
  ssize_t read(char* data, size_t size) override;
  ssize_t write(const char* data, size_t size) override;
  void get_remote_ip_and_port(std::string& ip, int& port) const override;
  void get_local_ip_and_port(std::string& ip, int& port) const override;
  socket_t socket() const override { return socket_.number(); }

 private:
  // Waits for `events` of poll; false: past the deadline, or stopped.
  bool Wait(int events) const;
  // `call` until it does something: its result, or -1. `events`: what it waits for without TLS.
  template <typename Call>
  ssize_t Persist(int events, const Call& call) const;
  // Whether a line of the bytes read so far begins with "Range:", once `byte` is read.
  bool IsRange(char byte);

  const Descriptor socket_;
  const int stop_;
  SteadyTime deadline_;
  size_t max_bytes_ = kMaxRequestBytes;
  const std::unique_ptr<SSL, void (*)(SSL*)> ssl_;  // Null: no TLS.
  std::array<char, 4096> buffer_ = {};
  size_t begin_ = 0, end_ = 0, read_bytes_ = 0;
  size_t matched_ = 0;  // Bytes of the line so far, if it begins as "Range:" does; else more than that has.
};

// cpp-httplib reads a request and finds its handler; the connection and its threads are HttpListener's.
class HttpRoutes : protected httplib::Server {
 public:
  // Thread-safe, as far as the handlers are.
  void Serve(HttpConnection& connection) { Process(*this, connection, 0); }

 private:
  // One request of a connection that ends with it, as versions of cpp-httplib before and after 0.16 have it.
  template <typename Self>
  static auto Process(Self& self, HttpConnection& connection, int /*preferred*/)
      -> decltype(self.process_request(connection, true, std::declval<bool&>(), nullptr)) {
    bool closed = false;
    return self.process_request(connection, /*close_connection=*/true, closed, nullptr);
  }
  template <typename Self>
  static auto Process(Self& self, HttpConnection& connection, int64_t /*otherwise*/)
      -> decltype(self.process_request(connection, "", 0, "", 0, true, std::declval<bool&>(), nullptr)) {
    bool closed = false;
    return self.process_request(connection, "", 0, "", 0, /*close_connection=*/true, closed, nullptr);
  }
};

// Each of a few threads takes one connection after the other and hands it to `serve`; more wait in the kernel.
// Thread-safe.
class HttpListener {
 public:
  // `serve`: thread-safe; serves one request. `requests`: as IdentityReloader's: connections after one show the renewed
  // certificate. Errors: InvalidArgument, naming the field, if it cannot listen, or a certificate or key cannot be
  // used; Internal if no thread is to be had.
  static absl::StatusOr<std::unique_ptr<HttpListener>> Start(const HttpPlace& place,
                                                             std::function<void(HttpConnection&)> serve,
                                                             int (*requests)() = &ReloadRequests);
  // Waits for requests under way, which get no more time to be sent or received.
  ~HttpListener();
  HttpListener(const HttpListener&) = delete;
  HttpListener& operator=(const HttpListener&) = delete;

  // The port that it listens on: the configured one, or the one that port 0 got; of no meaning at unix:PATH.
  int port() const { return PortOf(sockets_.front()); }

 private:
  HttpListener(HttpPlace place, std::vector<Descriptor> sockets, std::unique_ptr<PageTls> tls, Descriptor stop,
               std::function<void(HttpConnection&)> serve);
  void Run() const;
  // The next connection; -1: none is left, or stopped.
  Descriptor Accept() const;

  const HttpPlace place_;
  const std::vector<Descriptor> sockets_;
  const std::unique_ptr<PageTls> tls_;  // Null: HTTP.
  const Descriptor stop_;
  const std::function<void(HttpConnection&)> serve_;
  std::vector<std::thread> threads_;  // Last: use all above.
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_MONITORING_HTTP_LISTENER_H_
