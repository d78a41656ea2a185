#include "common/transport/host_port.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "common/status/status_macros.h"

namespace splitveil {
namespace {

constexpr uint32_t kMaxPort = 65535;

absl::Status Refused(absl::string_view field, absl::string_view expected, absl::string_view address,
                     absl::string_view reason) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": expected ", expected, ", found \"", address, "\"", reason));
}

// 0, or the errno of what failed. As gRPC's server does: a port whose last connections have just ended is free.
int TryToBind(const addrinfo& info) {
  const int socket_fd = socket(info.ai_family, info.ai_socktype | SOCK_CLOEXEC, info.ai_protocol);
  if (socket_fd < 0) {
    return errno;
  }
  const int yes = 1;
  (void)setsockopt(socket_fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  const int error = bind(socket_fd, info.ai_addr, info.ai_addrlen) == 0 ? 0 : errno;
  close(socket_fd);
  return error;
}

}  // namespace

absl::StatusOr<HostPort> ParseHostPort(absl::string_view field, absl::string_view address) {
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
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int resolved = getaddrinfo(parsed.host.c_str(), absl::StrCat(parsed.port).c_str(), &hints, &found);
  if (resolved != 0) {
    return Refused(field, "a host:port of this machine", address, absl::StrCat(": ", gai_strerror(resolved)));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(found, &freeaddrinfo);
  int error = 0;
  for (const addrinfo* info = found; info != nullptr; info = info->ai_next) {
    error = TryToBind(*info);
    if (error == 0) {
      return absl::OkStatus();
    }
  }
  return Refused(field, "a free host:port of this machine", address, absl::StrCat(": ", std::strerror(error)));
}

}  // namespace splitveil
