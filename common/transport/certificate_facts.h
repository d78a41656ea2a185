// What a person wants to know of a certificate.
#ifndef SPLITVEIL_COMMON_TRANSPORT_CERTIFICATE_FACTS_H_
#define SPLITVEIL_COMMON_TRANSPORT_CERTIFICATE_FACTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "common/crypto/digest.h"

namespace splitveil {

// Certificates that end sooner are worth a warning.
inline constexpr int64_t kExpiryWarningDays = 30;

struct CertificateFacts {
  std::string subject, issuer;        // As "CN=bank", without control characters.
  std::string dns_names;              // "a, b"; "none".
  std::string not_before, not_after;  // "2026-11-25", UTC.
  int64_t not_after_unix = 0;         // The same in seconds since 1970; 0: unreadable.
  int64_t days_left = 0;              // Whole days until it ends; below 0 once it has.
  bool begun = false;
  bool expired = false;
  bool is_authority = false;  // May sign others.
  bool self_signed = false;
  Digest sha256 = {};  // Of its DER encoding, as every TLS tool shows it.

  bool expires_soon() const { return !expired && days_left < kExpiryWarningDays; }
};

// Of all certificates in a PEM text, in its order, as of now. Errors: InvalidArgument where there is none or one is
// malformed. Thread-safe.
absl::StatusOr<std::vector<CertificateFacts>> ReadCertificateFacts(const std::string& pem);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_TRANSPORT_CERTIFICATE_FACTS_H_
