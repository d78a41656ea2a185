#include "common/ledger/claim_check.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace splitveil {

std::string DescribeClaimCheck(const ClaimCheckRow& check) {
  return absl::StrCat(
      absl::StrFormat(
          "claimed mu %.3f; measured mu at least %.3f (%.0f%% confidence), at least %.3f (%.4g%%): claim %s",
          check.claimed_mu, check.mu_lower, 100 * check.confidence, check.failing_mu_lower,
          100 * check.failing_confidence, check.is_refuted() ? "refuted" : "not refuted"),
      check.is_conclusive() ? "" : "; too few examples to detect noise at half the claimed strength");
}

}  // namespace splitveil
