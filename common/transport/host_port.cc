#include "common/transport/host_port.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

#include "common/status/status_macros.h"

namespace splitveil {
namespace {

constexpr uint32_t kMaxPort = 65535;

absl::Status Refused(absl::string_view field, absl::string_view expected, absl::string_view address,
                     absl::string_view reason) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": expected ", expected, ", found \"", address, "\"", reason));
}

using Addresses = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

// The addresses to listen at that `place` names; null and the reason if there are none.
std::pair<Addresses, absl::string_view> Resolve(const HostPort& place) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int resolved = getaddrinfo(place.host.c_str(), absl::StrCat(place.port).c_str(), &hints, &found);
  return {Addresses(resolved == 0 ? found : nullptr, &freeaddrinfo), resolved == 0 ? "" : gai_strerror(resolved)};
}

// 0, or the errno of what failed. With SO_REUSEADDR, as gRPC's server does: a port whose last connections have just
// ended is free.
int TryToBind(const addrinfo& info) {
  const Descriptor bound(socket(info.ai_family, info.ai_socktype | SOCK_CLOEXEC, info.ai_protocol));
  if (bound.number() < 0) {
    return errno;
  }
  // Without it a run could not start again within minutes of its last one.
  SetOption(bound.number(), SOL_SOCKET, SO_REUSEADDR, 1);
  return bind(bound.number(), info.ai_addr, info.ai_addrlen) == 0 ? 0 : errno;
}

// Listens at `address`, of `size` bytes. On failure: no descriptor, and the errno.
std::pair<Descriptor, int> ListenAt(const sockaddr* address, socklen_t size) {
  Descriptor listening(socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (listening.number() < 0) {
    return {Descriptor(), errno};
  }
  // A port whose last connections have just ended is free; a second server on it would be refused.
  SetOption(listening.number(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (address->sa_family == AF_INET6) {
    // One socket for both families; some systems default to IPv6 only.
    SetOption(listening.number(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  }
  if (bind(listening.number(), address, size) != 0 || listen(listening.number(), SOMAXCONN) != 0) {
    return {Descriptor(), errno};
  }
  return {std::move(listening), 0};
}

}  // namespace

absl::StatusOr<HostPort> ParseHostPort(absl::string_view field, absl::string_view address) {
  // From the right, since an IPv6 address in brackets contains colons.
  const size_t colon = address.rfind(':');
  absl::string_view host = address.substr(0, colon == absl::string_view::npos ? 0 : colon);
  const absl::string_view digits = colon == absl::string_view::npos ? "" : address.substr(colon + 1);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) {
    host = host.substr(1, host.size() - 2);
  }
  uint32_t port = 0;
  const bool is_port = std::all_of(digits.begin(), digits.end(), absl::ascii_isdigit) &&
                       absl::SimpleAtoi(digits, &port) && port <= kMaxPort;
  // A colon outside brackets would make the port ambiguous.
  const bool is_host = !host.empty() && host.find_first_of("[]/ ") == absl::string_view::npos &&
                       (bracketed || !absl::StrContains(host, ':'));
  if (!is_host || !is_port) {
    return Refused(field, absl::StrCat("host:port with a port of 0 to ", kMaxPort), address, "");
  }
  return HostPort{std::string(host), static_cast<uint16_t>(port)};
}

std::string WithPort(const std::string& address, int port) {
  return absl::StrCat(address.substr(0, address.rfind(':') + 1), port);
}

absl::Status CheckFree(absl::string_view field, absl::string_view address) {
  SPLITVEIL_ASSIGN_OR_RETURN(const HostPort parsed, ParseHostPort(field, address));
  const auto [found, problem] = Resolve(parsed);
  if (found == nullptr) {
    return Refused(field, "a host:port of this machine", address, absl::StrCat(": ", problem));
  }
  int error = 0;
  for (const addrinfo* info = found.get(); info != nullptr; info = info->ai_next) {
    error = TryToBind(*info);
    // One usable address is enough for the answer; the server will try all of them itself.
    if (error == 0) {
      return absl::OkStatus();
    }
  }
  return Refused(field, "a free host:port of this machine", address, absl::StrCat(": ", std::strerror(error)));
}

std::string NameOfPeer(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    inet_ntop(AF_INET, &v4.sin_addr, text, sizeof(text));
    return absl::StrCat("ipv4:", text, ":", ntohs(v4.sin_port));
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
  // One socket serves both families, and gRPC names such peers by their IPv4 address.
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
    inet_ntop(AF_INET, &v6.sin6_addr.s6_addr[12], text, sizeof(text));
    return absl::StrCat("ipv4:", text, ":", ntohs(v6.sin6_port));
  }
  inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof(text));
  const std::string scope =
      v6.sin6_scope_id == 0 ? "" : absl::StrCat("%25", v6.sin6_scope_id);  // The interface of a link-local address.
  return absl::StrCat("ipv6:", text, scope, ":", ntohs(v6.sin6_port));
}

// gRPC percent-encodes and brackets IPv6 peers differently from version to version; both sides are compared bare.
std::string WithoutBrackets(absl::string_view peer) {
  return absl::StrReplaceAll(peer, {{"%5B", ""}, {"%5D", ""}, {"[", ""}, {"]", ""}});
}

void SetOption(int descriptor, int level, int option, int value) {
  (void)setsockopt(descriptor, level, option, &value, sizeof(value));
}

int PortOf(const Descriptor& socket_owner) {
  sockaddr_storage bound = {};
  socklen_t size = sizeof(bound);
  if (getsockname(socket_owner.number(), reinterpret_cast<sockaddr*>(&bound), &size) != 0) {
    return 0;
  }
  return ntohs(PortIn(bound));
}

in_port_t& PortIn(sockaddr_storage& address) {
  return address.ss_family == AF_INET ? reinterpret_cast<sockaddr_in&>(address).sin_port
                                      : reinterpret_cast<sockaddr_in6&>(address).sin6_port;
}

void OfThisMachine(sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    auto& v4 = reinterpret_cast<sockaddr_in&>(address);
    v4.sin_addr.s_addr = v4.sin_addr.s_addr == htonl(INADDR_ANY) ? htonl(INADDR_LOOPBACK) : v4.sin_addr.s_addr;
  } else if (auto& v6 = reinterpret_cast<sockaddr_in6&>(address); IN6_IS_ADDR_UNSPECIFIED(&v6.sin6_addr)) {
    // By IPv4, which such a socket takes, too: containers often have IPv6 without an address of its own.
    inet_pton(AF_INET6, "::ffff:127.0.0.1", &v6.sin6_addr);
  }
}

absl::StatusOr<std::vector<Descriptor>> ListenAtAll(absl::string_view field, const std::string& address) {
  const auto refused = [&](absl::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ": expected a free host:port, found ", address, why.empty() ? "" : ": ", why));
  };
  SPLITVEIL_ASSIGN_OR_RETURN(const HostPort place, ParseHostPort(field, address));
  std::vector<Descriptor> sockets;
  if (place.host == "0.0.0.0") {
    sockaddr_in6 any = {};
    any.sin6_family = AF_INET6;
    any.sin6_addr = in6addr_any;
    any.sin6_port = htons(place.port);
    auto [listening, error] = ListenAt(reinterpret_cast<const sockaddr*>(&any), sizeof(any));
    if (error == 0) {
      sockets.push_back(std::move(listening));
      return sockets;
    }  // No IPv6 on this machine, or the port is taken: trying IPv4 shows which.
  }
  const auto [found, problem] = Resolve(place);
  if (found == nullptr) {
    return refused(problem);
  }
  int last_error = 0;
  for (addrinfo* info = found.get(); info != nullptr; info = info->ai_next) {
    if (place.port == 0 && !sockets.empty()) {  // All on the port that the first socket got.
      const auto port = htons(static_cast<uint16_t>(PortOf(sockets.front())));
      (info->ai_family == AF_INET ? reinterpret_cast<sockaddr_in*>(info->ai_addr)->sin_port
                                  : reinterpret_cast<sockaddr_in6*>(info->ai_addr)->sin6_port) = port;
    }
    auto [listening, error] = ListenAt(info->ai_addr, info->ai_addrlen);
    if (error == 0) {
      sockets.push_back(std::move(listening));
    } else {
      last_error = error;
    }
  }
  if (sockets.empty()) {
    return refused(std::strerror(last_error));
  }
  return sockets;
}

}  // namespace splitveil
