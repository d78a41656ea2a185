// What a party's configuration says of its monitoring, checked.
#ifndef SPLITVEIL_COMMON_MONITORING_MONITORING_PLAN_H_
#define SPLITVEIL_COMMON_MONITORING_MONITORING_PLAN_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "common/crypto/digest.h"
#include "common/transport/tls_identity.h"

#include "splitveil/v1/party.pb.h"

namespace splitveil {

struct MonitoringPlan {
  std::string listen_address;
  bool is_loopback = true;                          // HTTP; else HTTPS.
  std::optional<Digest> token_sha256;               // nullopt: no token is asked for, and nothing can be changed.
  TlsIdentity identity;                             // Of HTTPS, too.
  absl::Duration request_limit = absl::Seconds(5);  // From the connection to the end of the answer.
};

// nullopt: the party is not monitored. Reads the token. `identity`: the party's. Errors: InvalidArgument, NotFound as
// one line, after the configuration file and the field: an address that is no loopback without a token, a token that is
// too short or that others may read.
absl::StatusOr<std::optional<MonitoringPlan>> PlanMonitoring(const v1::PartyCommon& party,
                                                             const std::string& config_path,
                                                             const TlsIdentity& identity);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_MONITORING_MONITORING_PLAN_H_
