// What a party makes on its own machine: its key, and either a request for an authority to sign or a certificate that
// it has signed itself. The private key never has to leave it.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_CERTIFICATES_CERTIFICATE_REQUEST_H_
#define SPLITVEIL_DEPLOY_OPERATOR_CERTIFICATES_CERTIFICATE_REQUEST_H_

#include <string>

#include "absl/status/statusor.h"
#include "deploy/operator/certificates/certificate_parts.h"

namespace splitveil {

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

#endif  // SPLITVEIL_DEPLOY_OPERATOR_CERTIFICATES_CERTIFICATE_REQUEST_H_
