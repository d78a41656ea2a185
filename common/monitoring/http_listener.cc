#include "common/monitoring/http_listener.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

#include "common/operations/operator_server.h"
#include "common/process/steady_time.h"
#include "common/status/status_macros.h"
#include "common/telemetry/log.h"

namespace splitveil {

namespace {

absl::StatusOr<std::shared_ptr<SSL_CTX>> MakeContext(const TlsIdentity& identity) {
  std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_server_method()), &SSL_CTX_free);
  if (context == nullptr || SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION) != 1) {
    return absl::InternalError("HTTPS: TLS 1.3 is not to be had");
  }
  // The whole chain is sent: a browser may lack the certificates between this one and its root.
  if (SSL_CTX_use_certificate_chain_file(context.get(), identity.certificate_path.c_str()) != 1 ||
      SSL_CTX_use_PrivateKey_file(context.get(), identity.private_key_path.c_str(), SSL_FILETYPE_PEM) != 1) {
    return absl::InvalidArgumentError(absl::StrCat("HTTPS: expected a certificate and its key, found ",
                                                   identity.certificate_path, " and ", identity.private_key_path));
  }
  return context;
}

}  // namespace

absl::StatusOr<std::unique_ptr<PageTls>> PageTls::Create(const TlsIdentity& identity, int (*requests)()) {
  std::unique_ptr<PageTls> tls = absl::WrapUnique(new PageTls(identity, requests));
  const absl::MutexLock lock(&tls->mutex_);
  SPLITVEIL_ASSIGN_OR_RETURN(tls->context_, MakeContext(tls->identity_.Next().value_or(identity)));
  return tls;
}

std::shared_ptr<SSL_CTX> PageTls::Current() {
  const absl::MutexLock lock(&mutex_);
  // A renewed certificate that cannot be used must not end the page: the old one may still hold for days.
  if (const std::optional<TlsIdentity> renewed = identity_.Next(); renewed.has_value()) {
    if (absl::StatusOr<std::shared_ptr<SSL_CTX>> context = MakeContext(*renewed); context.ok()) {
      context_ = *std::move(context);
    } else {
      LogWarning("the page keeps its certificate: ", context.status().message());
    }
  }
  return context_;
}

namespace {

constexpr absl::string_view kRange = "range:";

}  // namespace

HttpConnection::HttpConnection(Descriptor socket, SSL_CTX* tls, int stop, SteadyTime deadline)
    : socket_(std::move(socket)),
      stop_(stop),
      deadline_(deadline),
      ssl_(tls == nullptr ? nullptr : SSL_new(tls), &SSL_free) {}

HttpConnection::~HttpConnection() {
  if (ssl_ != nullptr) {
    SSL_shutdown(ssl_.get());  // Sends close_notify and does not wait for an answer.
  }
  shutdown(socket_.number(), SHUT_WR);
}

bool HttpConnection::Wait(int events) const {
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - SteadyNow()).count();
    if (left <= 0) {
      return false;
    }
    // The stop descriptor ends every wait at once, so that the end of a run never waits for a browser.
    pollfd polled[] = {{socket_.number(), static_cast<int16_t>(events), 0}, {stop_, POLLIN, 0}};
    const int ready = poll(polled, 2, static_cast<int>(left));
    if (polled[1].revents != 0 || (ready < 0 && errno != EINTR)) {
      return false;
    }
    if (ready > 0) {
      return true;
    }
  }
}

template <typename Call>
ssize_t HttpConnection::Persist(int events, const Call& call) const {
  while (true) {
    const ssize_t done = call();
    if (done > 0 || (done == 0 && ssl_ == nullptr)) {
      return done;
    }
    if (ssl_ != nullptr) {
      const int error = SSL_get_error(ssl_.get(), static_cast<int>(done));
      // TLS may have to read in order to write (a key update), so OpenSSL says what to wait for.
      if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) {
        return error == SSL_ERROR_ZERO_RETURN ? 0 : -1;
      }
      events = error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT;
    } else if (errno != EAGAIN && errno != EINTR) {
      return -1;
    }
    if (!Wait(events)) {
      return -1;
    }
  }
}

bool HttpConnection::Begin() {
  if (ssl_ == nullptr) {
    return true;
  }
  return SSL_set_fd(ssl_.get(), socket_.number()) == 1 &&
         Persist(POLLIN, [this] { return static_cast<ssize_t>(SSL_accept(ssl_.get())); }) == 1;
}

bool HttpConnection::IsRange(char byte) {
  if (matched_ == kRange.size()) {
    return true;
  }
  // Ranges are refused before the library parses them: many overlapping ones would cost memory and time.
  const bool goes_on = matched_ < kRange.size() && absl::ascii_tolower(byte) == kRange[matched_];
  matched_ = byte == '\n' ? 0 : goes_on ? matched_ + 1 : kRange.size() + 1;
  return matched_ == kRange.size();
}

ssize_t HttpConnection::read(char* data, size_t size) {
  if (begin_ == end_) {
    // More than a request has would only hold memory and a thread.
    const size_t wanted = std::min(buffer_.size(), max_bytes_ - read_bytes_);
    if (wanted == 0) {
      return -1;
    }
    const ssize_t got = Persist(POLLIN, [&] {
      return ssl_ == nullptr ? recv(socket_.number(), buffer_.data(), wanted, 0)
                             : static_cast<ssize_t>(SSL_read(ssl_.get(), buffer_.data(), static_cast<int>(wanted)));
    });
    if (got <= 0) {
      return got;
    }
    begin_ = 0;
    end_ = static_cast<size_t>(got);
    read_bytes_ += end_;
  }
  const size_t given = std::min(size, end_ - begin_);
  const auto* const first = buffer_.begin() + begin_;
  if (std::any_of(first, first + given, [this](char byte) { return IsRange(byte); })) {
    return -1;
  }
  std::copy_n(first, given, data);
  begin_ += given;
  return static_cast<ssize_t>(given);
}

ssize_t HttpConnection::write(const char* data, size_t size) {
  if (size == 0) {
    return 0;
  }
  return Persist(POLLOUT, [&] {
    return ssl_ == nullptr ? send(socket_.number(), data, size, MSG_NOSIGNAL)
                           : static_cast<ssize_t>(SSL_write(ssl_.get(), data, static_cast<int>(size)));
  });
}

// Never asked for: what a request may do depends on no address.
void HttpConnection::get_remote_ip_and_port(std::string& ip, int& port) const {
  ip.clear();
  port = 0;
}

void HttpConnection::get_local_ip_and_port(std::string& ip, int& port) const {
  ip.clear();
  port = 0;
}

namespace {

constexpr int kPauseMillis = 100;
// A nice value: the page gets the processor time that training does not need.
constexpr int kNice = 10;

// Applies to this thread alone: for Linux it is a process of its own.
void YieldToTheRun() { (void)setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kNice); }

// Signals are handled by the threads of the run.
void BlockSignals() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

}  // namespace

absl::StatusOr<std::unique_ptr<HttpListener>> HttpListener::Start(const HttpPlace& place,
                                                                  std::function<void(HttpConnection&)> serve,
                                                                  int (*requests)()) {
  std::unique_ptr<PageTls> tls;
  if (!place.is_loopback) {
    SPLITVEIL_ASSIGN_OR_RETURN(tls, PageTls::Create(place.identity, requests));
  }
  std::vector<Descriptor> sockets;
  if (absl::string_view path = place.listen_address; absl::ConsumePrefix(&path, "unix:")) {
    SPLITVEIL_ASSIGN_OR_RETURN(Descriptor socket, ListenAtSocket(place.field, std::string(path)));
    sockets.push_back(std::move(socket));
  } else {
    SPLITVEIL_ASSIGN_OR_RETURN(sockets, ListenAtAll(place.field, place.listen_address));
  }
  Descriptor stop(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (stop.number() < 0) {
    return absl::InternalError(absl::StrCat(place.field, ": no descriptor is left"));
  }
  std::unique_ptr<HttpListener> listener(
      new HttpListener(place, std::move(sockets), std::move(tls), std::move(stop), std::move(serve)));
  try {
    for (int i = 0; i < place.threads; ++i) {
      // A fixed number of threads: a flood of requests slows the page and not the training.
      listener->threads_.emplace_back([started = listener.get()] { started->Run(); });
    }
  } catch (const std::system_error& error) {
    // A page with fewer threads still works.
    if (listener->threads_.empty()) {
      return absl::InternalError(absl::StrCat(place.field, ": no thread is to be had: ", error.what()));
    }
  }
  return listener;
}

HttpListener::HttpListener(HttpPlace place, std::vector<Descriptor> sockets, std::unique_ptr<PageTls> tls,
                           Descriptor stop, std::function<void(HttpConnection&)> serve)
    : place_(std::move(place)),
      sockets_(std::move(sockets)),
      tls_(std::move(tls)),
      stop_(std::move(stop)),
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
      // Without a pause the loop would burn a processor that the run needs.
      if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
        (void)poll(polled.data(), 1, kPauseMillis);  // Out of descriptors until one is closed elsewhere.
      }
    }
  }
}

void HttpListener::Run() const {
  BlockSignals();
  // A page that is read often must not slow a training step down.
  if (place_.gives_way) {
    YieldToTheRun();
  }
  for (Descriptor accepted = Accept(); accepted.number() >= 0; accepted = Accept()) {
    const std::shared_ptr<SSL_CTX> tls = tls_ == nullptr ? nullptr : tls_->Current();
    HttpConnection connection(std::move(accepted), tls.get(), stop_.number(), SteadyAfter(place_.request_limit));
    if (connection.Begin()) {
      serve_(connection);
    }
  }
}

}  // namespace splitveil
