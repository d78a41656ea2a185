// TLS of the page, with certificates that are renewed while it is served.
#ifndef SPLITVEIL_COMMON_MONITORING_PAGE_TLS_H_
#define SPLITVEIL_COMMON_MONITORING_PAGE_TLS_H_

#include <memory>
#include <openssl/ssl.h>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

#include "common/transport/identity_reloader.h"
#include "common/transport/tls_identity.h"

namespace splitveil {

// TLS 1.3 and nothing older, as a server that asks for no certificate. Thread-safe.
class PageTls {
 public:
  // `requests`: as IdentityReloader's. Errors: InvalidArgument where the identity's files are no certificate and its
  // key.
  static absl::StatusOr<std::unique_ptr<PageTls>> Create(const TlsIdentity& identity, int (*requests)());

  // For the next connection: of the files as they are, once they are to be read again. Files that cannot be used change
  // nothing.
  std::shared_ptr<SSL_CTX> Current() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  PageTls(const TlsIdentity& identity, int (*requests)()) : identity_(identity, requests) {}

  IdentityReloader identity_;
  absl::Mutex mutex_;
  std::shared_ptr<SSL_CTX> context_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_MONITORING_PAGE_TLS_H_
