// Certificates (X.509 v3, P-256, OpenSSL): an authority for a run, and what a party makes on its own machine so that
// its private key never has to leave it.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_CERTIFICATES_CERTIFICATE_AUTHORITY_H_
#define SPLITVEIL_DEPLOY_OPERATOR_CERTIFICATES_CERTIFICATE_AUTHORITY_H_

#include <sys/types.h>

#include <openssl/evp.h>
#include <openssl/x509.h>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "common/storage/file_system.h"
#include "common/transport/certificate.h"

namespace splitveil {

// Both PEM. The key is PKCS #8 and not encrypted: write it to a file that only its owner can read.
struct CertifiedKey {
  std::string certificate_pem;
  std::string private_key_pem;
};

// The most days a certificate may be valid: ten years.
inline constexpr int kMaxCertificateDays = 3650;

// A new authority, self-signed, valid `days` from an hour ago (the peer's clock may be behind). It signs certificates
// of parties and no further authorities (pathlen 0). RFC 5280 profile: 128-bit random serial; critical basicConstraints
// and keyUsage; subject and authority key identifiers; ECDSA with SHA-256. `common_name`: 1 to 64 printable ASCII
// characters. Errors: InvalidArgument for a name or a number of days (1 to kMaxCertificateDays) out of range.
absl::StatusOr<CertifiedKey> CreateAuthority(const std::string& common_name, int days);

// A certificate for `dns_name` (subject alternative name), client and server use, signed by `authority`. The
// alternative name alone is the identity; the common name shows its first label. It ends with the authority at the
// latest. `dns_name`: a host name of RFC 1123 (at most 253 characters, labels of 1 to 63 letters, digits and inner
// hyphens); no wildcard, no final dot, no IP address. Errors: InvalidArgument for a name or a number of days out of
// range, or an authority that is not PEM, not an authority, not valid today, or whose key is not the certificate's.
absl::StatusOr<CertifiedKey> IssueCertificate(const CertifiedKey& authority, const std::string& dns_name, int days);

// A certificate for `dns_name` of the key that asks for it in `request_pem` (CreateRequest): its private half
// stays where it is. Of the request nothing else is taken but its name, which must be `dns_name`: the signer says
// whom for. As IssueCertificate otherwise. Errors: as IssueCertificate and KeyOfRequest.
absl::StatusOr<std::string> SignRequest(const CertifiedKey& authority, const std::string& request_pem,
                                        const std::string& dns_name, int days);

// PEM. The key is PKCS #8 and not encrypted: write it to a file that only its owner can read.
struct RequestAndKey {
  std::string request_pem;
  std::string private_key_pem;
};

// A new key on P-256 and a signing request (PKCS #10) for `dns_name`, as its subject alternative name. Errors:
// InvalidArgument for a name that is no host name.
absl::StatusOr<RequestAndKey> CreateRequest(const std::string& dns_name);

// The public key of a request that its private half has signed. Errors: InvalidArgument if it is no request, its
// signature does not hold, it asks for another name than `dns_name` or for several, or its key is weaker than 112 bits
// of security (RSA below 2048 bits).
absl::StatusOr<PrivateKeyPtr> KeyOfRequest(const std::string& request_pem, const std::string& dns_name);

// A new key and a certificate for `dns_name` that it signs itself, valid `days` from an hour ago. It is no authority: a
// peer that has it as its authority_path accepts this certificate and no other (common/transport/certificate.h).
// Errors: as IssueCertificate.
absl::StatusOr<CertifiedKey> CreateSelfSigned(const std::string& dns_name, int days);

// "label-party" of "label-party.example.com": shown as a party's common name, which identifies nobody.
std::string FirstLabel(const std::string& dns_name);

// The steps of the above. A new key on P-256; null if OpenSSL fails.
PrivateKeyPtr NewKey();
// Everything but issuer, extensions and signature: of `key`, valid `days` from an hour ago.
absl::StatusOr<X509Ptr> NewUnsigned(absl::string_view common_name, EVP_PKEY* key, int days);
// OpenSSL's number of an extension, and its value in OpenSSL's little language, in which commas separate: validate what
// is put into it.
using ExtensionText = std::pair<int, std::string>;
// Signs in the issuer's name, which may be the certificate itself.
absl::Status Sign(X509* certificate, X509* issuer, EVP_PKEY* issuer_key, const std::vector<ExtensionText>& extensions);
// What a party's certificate may do, whatever authority signs it: be either end of TLS under `dns_name`, and sign
// nothing.
std::vector<ExtensionText> PartyExtensions(const std::string& dns_name);
// PEM; the key as PKCS #8, unencrypted.
absl::StatusOr<std::string> CertificatePem(X509* certificate);
absl::StatusOr<std::string> KeyPem(EVP_PKEY* key);

struct NewFile {
  std::string path;
  std::string contents;
  mode_t mode = kOwnerOnly;
};

// Makes `folder` if it does not exist, then writes all of `files` or none. Errors:
// AlreadyExists if one is there; InvalidArgument if the folder or a file cannot be made; else as CreateFile.
absl::Status CreateFiles(const std::string& folder, const std::vector<NewFile>& files);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_CERTIFICATES_CERTIFICATE_AUTHORITY_H_
