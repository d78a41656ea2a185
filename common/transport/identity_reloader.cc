#include "common/transport/identity_reloader.h"

#include <utility>

#include "absl/status/statusor.h"

#include "common/telemetry/log.h"

namespace splitveil {

IdentityReloader::IdentityReloader(const TlsIdentity& identity, int (*requests)())
    : requests_(requests), identity_(identity), seen_(requests()) {}

std::optional<TlsIdentity> IdentityReloader::Next() {
  const absl::MutexLock lock(&mutex_);
  const int requests = requests_();
  if (std::exchange(seen_, requests) != requests && !identity_.certificate_path.empty()) {
    absl::StatusOr<TlsIdentity> again =
        LoadTlsIdentity(identity_.own_name, identity_.peer_name, identity_.certificate_path, identity_.private_key_path,
                        identity_.authority_path);
    if (again.ok()) {
      LogInfo("certificates read again from ", identity_.certificate_path);
      identity_ = *std::move(again);
      told_ = false;
    } else {
      LogWarning("certificates stay as they were: ", again.status().message());
    }
  }
  return std::exchange(told_, true) ? std::nullopt : std::optional<TlsIdentity>(identity_);
}

}  // namespace splitveil
