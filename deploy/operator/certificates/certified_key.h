// A certificate and its private key.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_CERTIFICATES_CERTIFIED_KEY_H_
#define SPLITVEIL_DEPLOY_OPERATOR_CERTIFICATES_CERTIFIED_KEY_H_

#include <string>

namespace splitveil {

// Both PEM. The key is PKCS #8 and not encrypted: write it to a file that only its owner can read.
struct CertifiedKey {
  std::string certificate_pem;
  std::string private_key_pem;
};

// The most days a certificate may be valid: ten years.
inline constexpr int kMaxCertificateDays = 3650;

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_CERTIFICATES_CERTIFIED_KEY_H_
