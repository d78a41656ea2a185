// A certificate as `splitveil certificates show` prints it.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_CERTIFICATES_CERTIFICATE_TEXT_H_
#define SPLITVEIL_DEPLOY_OPERATOR_CERTIFICATES_CERTIFICATE_TEXT_H_

#include <string>

#include "common/transport/certificate.h"

namespace splitveil {

// Several lines, one a fact: what it is, subject, DNS names, issuer, dates, SHA-256 and the same as people compare it
// by voice (common/crypto/spoken_fingerprint.h); a line "warning" where it has ended, ends soon or has not begun.
std::string CertificateText(const std::string& path, const CertificateFacts& facts);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_CERTIFICATES_CERTIFICATE_TEXT_H_
