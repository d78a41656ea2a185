// What a party's configuration says of its monitoring, checked.
#ifndef SPLITVEIL_COMMON_MONITORING_MONITORING_PLAN_H_
#define SPLITVEIL_COMMON_MONITORING_MONITORING_PLAN_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "common/crypto/digest.h"
#include "common/transport/certificate.h"

#include "splitveil/v1/party.pb.h"

namespace splitveil {

// Where HTTP is served, and how much of it.
struct HttpPlace {
  std::string field = "party.monitoring.listen_address";  // For errors.
  std::string listen_address;                             // host:port or unix:PATH.
  bool is_loopback = true;                                // HTTP; else HTTPS.
  TlsIdentity identity;                                   // Of HTTPS, too.
  absl::Duration request_limit = absl::Seconds(5);        // From the connection to the end of the answer.
  int threads = 4;                                        // Requests at a time.
  bool gives_way = true;                                  // Its threads yield to those of the run, or of requests.
};

struct MonitoringPlan : HttpPlace {
  std::optional<Digest> token_sha256;  // nullopt: no token is asked for, and nothing can be changed.
};

// Whether `address`, host:port, leads back to this machine. Errors: InvalidArgument, naming `field`, unless it is an
// IPv4 or IPv6 address with a port: what a name resolves to may change, and with it who can ask there.
absl::StatusOr<bool> IsLoopbackAddress(const std::string& field, const std::string& address);

// SHA-256 of the token in the file `path`. Errors: NotFound; InvalidArgument, naming `field`, for a token that is too
// short, too long or malformed, or that others may read. No error holds the token.
absl::StatusOr<Digest> ReadToken(const std::string& field, const std::string& path);

// nullopt: the party is not monitored. Reads the token. `identity`: the party's. Errors: InvalidArgument, NotFound as
// one line, after the configuration file and the field: an address that is no loopback without a token, a token that is
// too short or that others may read. `field`: where the file has what is party.monitoring here.
absl::StatusOr<std::optional<MonitoringPlan>> PlanMonitoring(const v1::PartyCommon& party,
                                                             const std::string& config_path,
                                                             const TlsIdentity& identity,
                                                             const std::string& field = "party.monitoring");

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_MONITORING_MONITORING_PLAN_H_
