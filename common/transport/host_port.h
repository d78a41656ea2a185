// Addresses as configurations name them: "host:port".
#ifndef SPLITVEIL_COMMON_TRANSPORT_HOST_PORT_H_
#define SPLITVEIL_COMMON_TRANSPORT_HOST_PORT_H_

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace splitveil {

struct HostPort {
  std::string host;  // Without the brackets of "[::1]:7443".
  uint16_t port = 0;
};

// InvalidArgument, which names `field` ("listen_address"), for anything but a host and a decimal port.
absl::StatusOr<HostPort> ParseHostPort(absl::string_view field, absl::string_view address);

// `address`, which ParseHostPort takes, with this port.
std::string WithPort(const std::string& address, int port);

// Whether a server could listen at `address` now: takes the port and gives it back at once, without ever listening, so
// that no peer gets through meanwhile. InvalidArgument, which names `field`, if the address is not of this machine
// or its port is taken.
absl::Status CheckFree(absl::string_view field, absl::string_view address);

// Closes what it holds.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) {
      close(number_);
    }
  }
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int number() const { return number_; }
  int Release() { return std::exchange(number_, -1); }

 private:
  int number_;
};

// As gRPC names peers, but for the brackets of IPv6, which its versions write differently: "ipv4:127.0.0.1:80",
// "ipv6:::1:80". IPv4 over an IPv6 socket is IPv4.
std::string NameOfPeer(const sockaddr_storage& address);
// Turns gRPC's name of a peer into the form of NameOfPeer.
std::string WithoutBrackets(absl::string_view peer);

// setsockopt with an int; a failure is ignored, since every option here only improves a connection.
void SetOption(int descriptor, int level, int option, int value);
// The port that a socket is bound to, in host order; 0 if it cannot be read.
int PortOf(const Descriptor& socket_owner);
// The port in an IPv4 or IPv6 address, in network order.
in_port_t& PortIn(sockaddr_storage& address);
// Turns "every address" (0.0.0.0, ::) into IPv4's loopback, over IPv6 where it is a socket of both, so that it can be
// connected to. Other addresses stay.
void OfThisMachine(sockaddr_storage& address);

// Sockets that listen at `address`, host:port: one, or one for each address that a host name has. Errors:
// InvalidArgument, naming `field`, if there is none to listen at.
absl::StatusOr<std::vector<Descriptor>> ListenAtAll(absl::string_view field, const std::string& address);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_TRANSPORT_HOST_PORT_H_
