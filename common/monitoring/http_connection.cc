#include "common/monitoring/http_connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"

namespace splitveil {
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
    SSL_shutdown(ssl_.get());  // Says so and does not wait.
  }
  shutdown(socket_.number(), SHUT_WR);
}

bool HttpConnection::Wait(int events) const {
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - SteadyNow()).count();
    if (left <= 0) {
      return false;
    }
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
  const bool goes_on = matched_ < kRange.size() && absl::ascii_tolower(byte) == kRange[matched_];
  matched_ = byte == '\n' ? 0 : goes_on ? matched_ + 1 : kRange.size() + 1;
  return matched_ == kRange.size();
}

ssize_t HttpConnection::read(char* data, size_t size) {
  if (begin_ == end_) {
    const size_t wanted = std::min(buffer_.size(), kMaxRequestBytes - read_bytes_);
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

// Nobody asks: what a request may have depends on no address.
void HttpConnection::get_remote_ip_and_port(std::string& ip, int& port) const {
  ip.clear();
  port = 0;
}

void HttpConnection::get_local_ip_and_port(std::string& ip, int& port) const {
  ip.clear();
  port = 0;
}

}  // namespace splitveil
