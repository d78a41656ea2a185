#include "common/ledger/privacy_audit.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace splitveil {

std::string DescribePrivacyAudit(const PrivacyAuditRow& audit) {
  return absl::StrCat(
      absl::StrFormat(
          "claimed mu %.3f; measured mu at least %.3f (%.0f%% confidence), at least %.3f (%.4g%%): claim %s",
          audit.claimed_mu, audit.mu_lower, 100 * audit.confidence, audit.failing_mu_lower,
          100 * audit.failing_confidence, audit.is_refuted() ? "refuted" : "not refuted"),
      audit.is_conclusive() ? "" : "; too few examples to detect noise at half the claimed strength");
}

}  // namespace splitveil
