// Certificates (X.509 v3, P-256, OpenSSL): an authority for a run, and what a party makes on its own machine so that
// its private key never has to leave it.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_CERTIFICATES_CERTIFICATE_AUTHORITY_H_
#define SPLITVEIL_DEPLOY_OPERATOR_CERTIFICATES_CERTIFICATE_AUTHORITY_H_

#include <string>

#include "absl/status/statusor.h"
#include "deploy/operator/certificates/certificate_parts.h"

namespace splitveil {

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
// InvalidArgument for a name that is no host name (CheckDnsName).
absl::StatusOr<RequestAndKey> CreateRequest(const std::string& dns_name);

// The public key of a request that its private half has signed. Errors: InvalidArgument if it is no request, its
// signature does not hold, it asks for another name than `dns_name` or for several, or its key is weaker than 112 bits
// of security (RSA below 2048 bits).
absl::StatusOr<PrivateKey> KeyOfRequest(const std::string& request_pem, const std::string& dns_name);

// A new key and a certificate for `dns_name` that it signs itself, valid `days` from an hour ago. It is no authority: a
// peer that has it as its authority_path accepts this certificate and no other (common/transport/tls_identity.h).
// Errors: as IssueCertificate.
absl::StatusOr<CertifiedKey> CreateSelfSigned(const std::string& dns_name, int days);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_CERTIFICATES_CERTIFICATE_AUTHORITY_H_
