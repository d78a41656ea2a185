// Addresses as configurations name them: "host:port".
#ifndef SPLITVEIL_COMMON_TRANSPORT_HOST_PORT_H_
#define SPLITVEIL_COMMON_TRANSPORT_HOST_PORT_H_

#include <cstdint>
#include <string>

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
// that no peer gets through meanwhile. InvalidArgument, which names `field`, where the address is not of this machine
// or its port is taken.
absl::Status CheckFree(absl::string_view field, absl::string_view address);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_TRANSPORT_HOST_PORT_H_
