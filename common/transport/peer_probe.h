// One TLS handshake by OpenSSL instead of gRPC, whose only word for every failure is "unavailable".
#ifndef SPLITVEIL_COMMON_TRANSPORT_PEER_PROBE_H_
#define SPLITVEIL_COMMON_TRANSPORT_PEER_PROBE_H_

#include <functional>
#include <string>

#include "absl/status/status.h"

#include "common/process/steady_time.h"
#include "common/transport/certificate.h"

namespace splitveil {

// Waits until the peer at `address` ("host:port" or "[v6]:port") has accepted a TLS handshake and our certificate;
// tries again while it is not there. Errors: Unavailable when nobody listens before `deadline`; PermissionDenied, at
// once, with the cause and marked as a refusal, when either side refuses the other's certificate or TLS version;
// InvalidArgument for a malformed address; Cancelled soon after `stop`, asked every 100 ms, first says true (a name
// look-up under way is waited for). Logs every `reminder` what is waited for, and why. Thread-safe; nothing but the
// handshake is sent.
absl::Status WaitForPeer(const std::string& address, const TlsIdentity& identity, const std::string& server_name,
                         SteadyTime deadline, const std::function<bool()>& stop = {},
                         absl::Duration reminder = WaitReminder::kPeriod);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_TRANSPORT_PEER_PROBE_H_
