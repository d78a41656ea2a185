// One HTTP connection of a listener: a time limit, a byte limit, TLS where it has to be.
#ifndef SPLITVEIL_COMMON_MONITORING_HTTP_CONNECTION_H_
#define SPLITVEIL_COMMON_MONITORING_HTTP_CONNECTION_H_

#include <httplib.h>
#include <sys/types.h>

#include <array>
#include <cstddef>
#include <memory>
#include <openssl/ssl.h>
#include <string>

#include "common/process/steady_time.h"
#include "common/transport/listening_socket.h"

namespace splitveil {

// What cpp-httplib reads a request from and writes its answer to. Whatever the client does, it lasts until the deadline
// at most, and reads kMaxRequestBytes at most, up to the field name of a Range: cpp-httplib would answer with a part
// for each of thousands of ranges, and before that reads them by std::regex, whose recursion overflows a stack of 2
// MiB. It answers such a request with 400. Not thread-safe.
class HttpConnection final : public httplib::Stream {
 public:
  static constexpr size_t kMaxRequestBytes = 16 << 10;

  // `tls`: null: none. `stop`: a descriptor that becomes readable once nothing more is to be done. Both not owned; must
  // outlive this.
  HttpConnection(Descriptor socket, SSL_CTX* tls, int stop, SteadyTime deadline);
  ~HttpConnection() override;

  // Of TLS, the handshake. Before all else; false: the connection is of no use.
  bool Begin();

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
  const SteadyTime deadline_;
  const std::unique_ptr<SSL, void (*)(SSL*)> ssl_;  // Null: no TLS.
  std::array<char, 4096> buffer_ = {};
  size_t begin_ = 0, end_ = 0, read_bytes_ = 0;
  size_t matched_ = 0;  // Bytes of the line so far, where it begins as "Range:" does; else more than that has.
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_MONITORING_HTTP_CONNECTION_H_
