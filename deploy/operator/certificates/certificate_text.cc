#include "deploy/operator/certificates/certificate_text.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#include "common/crypto/digest.h"
#include "common/crypto/spoken_fingerprint.h"

namespace splitveil {
namespace {

const char* KindOf(const CertificateFacts& facts) {
  if (facts.is_authority) {
    return "an authority";
  }
  return facts.self_signed ? "self-signed, to be pinned by the peer" : "signed by an authority";
}

std::string WarningOf(const CertificateFacts& facts) {
  if (facts.expired) {
    return "  warning      it has expired: both parties refuse it\n";
  }
  if (!facts.begun) {
    return "  warning      it is not valid yet: both parties refuse it\n";
  }
  return facts.expires_soon() ? absl::StrCat("  warning      it ends in ", facts.days_left, " days\n") : "";
}

}  // namespace

std::string CertificateText(const std::string& path, const CertificateFacts& facts) {
  return absl::StrCat(path, ": ", KindOf(facts), "\n  subject      ", facts.subject, "\n  DNS names    ",
                      facts.dns_names, "\n  issuer       ", facts.issuer, "\n  valid        ", facts.not_before, " to ",
                      facts.not_after, "\n  SHA-256      ", absl::BytesToHexString(AsBytes(facts.sha256)),
                      "\n  fingerprint  ", SpokenFingerprint(facts.sha256), "\n", WarningOf(facts));
}

}  // namespace splitveil
