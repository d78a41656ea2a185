// Who a party is to its peer: its certificate, its private key and the authority that both trust; and the facts that a
// person wants to know of a certificate.
#ifndef SPLITVEIL_COMMON_TRANSPORT_CERTIFICATE_H_
#define SPLITVEIL_COMMON_TRANSPORT_CERTIFICATE_H_

#include <cstdint>
#include <memory>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <string>
#include <vector>

#include "absl/status/status.h"
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

// A store that trusts `authorities`. Errors: Internal from OpenSSL.
absl::StatusOr<X509StorePtr> TrustStore(const std::vector<X509Ptr>& authorities);

// DNS names among the subject alternative names, as "a, b"; "none" if there is none. Control characters are replaced.
std::string DnsNames(X509* certificate);

// Whether `certificate` carries `name` as a DNS subject alternative name. No wildcards, no common name.
bool CarriesDnsName(X509* certificate, const std::string& name);

// Empties this thread's OpenSSL error queue and returns the reason of its oldest error. gRPC shares the queue: code
// that leaves errors in it breaks gRPC's handshakes on the same thread.
std::string TakeOpenSslError();

// Days before expiry from which a certificate is worth a warning.
inline constexpr int64_t kExpiryWarningDays = 30;

struct CertificateFacts {
  std::string subject, issuer;        // For instance "CN=bank"; without control characters.
  std::string dns_names;              // "a, b"; "none".
  std::string not_before, not_after;  // "2026-11-25", UTC.
  int64_t not_after_unix = 0;         // The same in seconds since 1970; 0: unreadable.
  int64_t days_left = 0;              // Whole days until it expires; below 0 after that.
  bool begun = false;
  bool expired = false;
  bool is_authority = false;  // May sign others.
  bool self_signed = false;
  Digest sha256 = {};  // Of its DER encoding, as every TLS tool shows it.

  bool expires_soon() const { return !expired && days_left < kExpiryWarningDays; }
};

// The facts of all certificates in a PEM text, in its order, as of now. Errors: InvalidArgument if there is none or one
// is malformed. Thread-safe.
absl::StatusOr<std::vector<CertificateFacts>> ReadCertificateFacts(const std::string& pem);

// PEM contents and names, checked where LoadTlsIdentity made it: the key belongs to the certificate, which carries
// own_name and is unexpired, for TLS clients and servers. What is trusted is either of two. An authority: then it has
// signed this certificate, too, and the peer's. Or the peer's own certificate, self-signed and no authority, so that it
// has signed nothing else: it is pinned, no other is accepted from the peer, and who this party's own is of is the
// peer's business. Holds a private key: never log it.
struct TlsIdentity {
  std::string own_name, peer_name;
  std::string certificate_pem, private_key_pem, authority_pem;
  std::string certificate_path = "", private_key_path = "", authority_path = "";  // Empty: not of files.
};

// Reads and checks the files. `authority_path`: one or several authorities, or one or several certificates of the peer
// (the one in use and the next). Errors: NotFound, InvalidArgument naming the file and what is wrong with it; a private
// key that others than its owner may read is refused (its group may, if root owns it and this process is not
// root's).
absl::StatusOr<TlsIdentity> LoadTlsIdentity(const std::string& own_name, const std::string& peer_name,
                                            const std::string& certificate_path, const std::string& private_key_path,
                                            const std::string& authority_path);

// Checks that only its owner may read the file of a private key (its group may, if root owns it and this process is
// not root's): NotFound, or InvalidArgument with the file and its mode.
absl::Status CheckKeyIsOwners(const std::string& path);

// Names who talks to whom: SHA-256 of the own certificate, the peer's name and the authority that vouches for it.
Digest IdentitySha256(const TlsIdentity& identity);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_TRANSPORT_CERTIFICATE_H_
