#include "common/ledger/privacy_audit.h"

#include "absl/strings/str_format.h"

namespace splitveil {

std::string DescribePrivacyAudit(const PrivacyAuditRow& audit) {
  return absl::StrFormat("claimed mu %.3f; the run's own scores refute any mu below %.3f (%.0f%%)", audit.claimed_mu,
                         audit.mu_lower, 100 * audit.confidence);
}

}  // namespace splitveil
