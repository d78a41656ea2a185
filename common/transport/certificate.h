// Certificates: owned OpenSSL objects, and the facts that a person wants to know of one.
#ifndef SPLITVEIL_COMMON_TRANSPORT_CERTIFICATE_H_
#define SPLITVEIL_COMMON_TRANSPORT_CERTIFICATE_H_

#include <cstdint>
#include <memory>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "common/crypto/digest.h"

namespace splitveil {

// Owned OpenSSL objects and what the TLS code reads from certificates. Internal to common/transport.

template <typename T, void (*kFree)(T*)>
struct OpenSslDeleter {
  void operator()(T* object) const { kFree(object); }
};

using X509Ptr = std::unique_ptr<X509, OpenSslDeleter<X509, X509_free>>;
using PrivateKeyPtr = std::unique_ptr<EVP_PKEY, OpenSslDeleter<EVP_PKEY, EVP_PKEY_free>>;
using X509StorePtr = std::unique_ptr<X509_STORE, OpenSslDeleter<X509_STORE, X509_STORE_free>>;
using SslContextPtr = std::unique_ptr<SSL_CTX, OpenSslDeleter<SSL_CTX, SSL_CTX_free>>;
using SslPtr = std::unique_ptr<SSL, OpenSslDeleter<SSL, SSL_free>>;

// The certificates of a PEM text, in its order. Errors: InvalidArgument when there is none or one is malformed.
absl::StatusOr<std::vector<X509Ptr>> ParseCertificates(const std::string& pem);

// The private key of a PEM text. Errors: InvalidArgument; also for one that needs a passphrase.
absl::StatusOr<PrivateKeyPtr> ParsePrivateKey(const std::string& pem);

// A store that trusts `authorities`.
absl::StatusOr<X509StorePtr> TrustStore(const std::vector<X509Ptr>& authorities);

// DNS names among the subject alternative names, as "a, b"; "none" if there is none. Control characters are replaced.
std::string DnsNames(X509* certificate);

// Whether `certificate` carries `name` as a DNS subject alternative name. No wildcards, no common name.
bool CarriesDnsName(X509* certificate, const std::string& name);

// Empties this thread's OpenSSL error queue and returns the reason of its oldest error. gRPC shares the queue: code
// that leaves errors in it breaks gRPC's handshakes on the same thread.
std::string TakeOpenSslError();

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

#endif  // SPLITVEIL_COMMON_TRANSPORT_CERTIFICATE_H_
