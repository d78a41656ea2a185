// Certificates that are renewed while a server runs.
#ifndef SPLITVEIL_COMMON_TRANSPORT_IDENTITY_RELOADER_H_
#define SPLITVEIL_COMMON_TRANSPORT_IDENTITY_RELOADER_H_

#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

#include "common/transport/tls_identity.h"

namespace splitveil {

// Reads an identity's files again once that has been asked for. Thread-safe.
class IdentityReloader {
 public:
  // `requests`: how often it has been asked for so far (ReloadRequests); from any thread. An identity that is not of
  // files stays as it is.
  IdentityReloader(const TlsIdentity& identity, int (*requests)());

  // The identity, the first time and whenever its files were read again since the latest call; nullopt: as before.
  // Files that are no valid identity of the same name leave it as it was, with a warning in the log.
  std::optional<TlsIdentity> Next() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  int (*const requests_)();
  absl::Mutex mutex_;
  TlsIdentity identity_ ABSL_GUARDED_BY(mutex_);
  int seen_ ABSL_GUARDED_BY(mutex_);
  bool told_ ABSL_GUARDED_BY(mutex_) = false;  // Of the identity as it was given.
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_TRANSPORT_IDENTITY_RELOADER_H_
