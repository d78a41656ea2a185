#include "common/ledger/claim_check.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace splitveil {

std::string DescribeClaimCheck(const ClaimCheckRow& check) {
  return absl::StrCat(
      absl::StrFormat(
          "claimed mu %.3f; the run's own scores refute any mu below %.3f (%.0f%%), %.3f (%.4g%%, threshold "
          "for failing%s)",
          check.claimed_mu, check.mu_lower, 100 * check.confidence, check.failing_mu_lower,
          100 * check.failing_confidence, check.is_refuted() ? ": it fails" : ""),
      check.is_conclusive() ? "" : "; too few to detect noise at half the claimed strength");
}

}  // namespace splitveil
