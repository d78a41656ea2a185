// When the certificates end that a party shows and trusts.
#ifndef SPLITVEIL_COMMON_MONITORING_CERTIFICATE_DATES_H_
#define SPLITVEIL_COMMON_MONITORING_CERTIFICATE_DATES_H_

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

#include "common/process/runtime.h"
#include "common/transport/identity_reloader.h"
#include "common/transport/tls_identity.h"

#include "splitveil/v1/operations.pb.h"

namespace splitveil {

// Of the identity that connections use: once its files are to be read again (SIGHUP), the dates are those of the files,
// unless these are no valid identity. Thread-safe.
class CertificateDates {
 public:
  // `requests`: as IdentityReloader's. An identity without certificates has no dates.
  explicit CertificateDates(const TlsIdentity& identity, int (*requests)() = &ReloadRequests);

  // Adds "own" and "trusted": the first of the own chain to end, and the last of those that are trusted, which may be a
  // peer's certificate in use and the next.
  void AddTo(v1::GetStatusResponse& status) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  IdentityReloader identity_;
  absl::Mutex mutex_;
  int64_t own_ ABSL_GUARDED_BY(mutex_) = 0, trusted_ ABSL_GUARDED_BY(mutex_) = 0;  // Unix time; 0: none.
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_MONITORING_CERTIFICATE_DATES_H_
