#include "common/ledger/privacy_audit.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace splitveil {

std::string DescribePrivacyAudit(const PrivacyAuditRow& audit) {
  return absl::StrCat(
      absl::StrFormat("claimed mu %.3f; the run's own scores refute any mu below %.3f (%.0f%%), %.3f (%.4g%%, by which "
                      "it %s)",
                      audit.claimed_mu, audit.mu_lower, 100 * audit.confidence, audit.failing_mu_lower,
                      100 * audit.failing_confidence, audit.is_refuted() ? "fails" : "would fail"),
      audit.is_conclusive() ? "" : "; too few to find half of the noise");
}

}  // namespace splitveil
