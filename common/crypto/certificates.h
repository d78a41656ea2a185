// A certificate authority for a run and one certificate a party (X.509 v3, Ed25519 or P-256, OpenSSL).
#ifndef SPLITVEIL_COMMON_CRYPTO_CERTIFICATES_H_
#define SPLITVEIL_COMMON_CRYPTO_CERTIFICATES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace splitveil {

struct CertifiedKey {
  std::string certificate_pem;
  std::string private_key_pem;
};

// A new authority, self-signed, valid `days`.
absl::StatusOr<CertifiedKey> CreateAuthority(const std::string& common_name, int days);

// A certificate for `dns_name` (subject alternative name), client and server use, signed by `authority`.
absl::StatusOr<CertifiedKey> IssueCertificate(const CertifiedKey& authority, const std::string& dns_name, int days);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_CRYPTO_CERTIFICATES_H_
