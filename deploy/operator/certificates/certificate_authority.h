// A certificate authority for a run and one certificate a party (X.509 v3, P-256, OpenSSL).
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

// A certificate for `dns_name` of the key that asks for it in `request_pem` (certificate_request.h): its private half
// stays where it is. Of the request nothing else is taken but its name, which must be `dns_name`: the signer says
// whom for. As IssueCertificate otherwise. Errors: as IssueCertificate and KeyOfRequest.
absl::StatusOr<std::string> SignRequest(const CertifiedKey& authority, const std::string& request_pem,
                                        const std::string& dns_name, int days);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_CERTIFICATES_CERTIFICATE_AUTHORITY_H_
