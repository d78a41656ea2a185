#include "common/ledger/privacy_audit.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace splitveil {

std::string DescribePrivacyAudit(const PrivacyAuditRow& audit) {
  return absl::StrCat(
      absl::StrFormat(
          "claimed mu %.3f; the run's own scores refute any mu below %.3f (%.0f%%), %.3f (%.4g%%, threshold "
          "for failing%s)",
          audit.claimed_mu, audit.mu_lower, 100 * audit.confidence, audit.failing_mu_lower,
          100 * audit.failing_confidence, audit.is_refuted() ? ": it fails" : ""),
      audit.is_conclusive() ? "" : "; too few to detect noise at half the claimed strength");
}

}  // namespace splitveil
