// What an audit found, of what, and by what policy: so that a page on a desk says which files it speaks of.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_AUDIT_AUDIT_REPORT_H_
#define SPLITVEIL_DEPLOY_OPERATOR_AUDIT_AUDIT_REPORT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "deploy/operator/audit/audit_verdict.h"

namespace splitveil {

// A file by its name without its folder, and the SHA-256 of its bytes in hexadecimal.
struct AuditedFile {
  std::string name, sha256;
};

struct AuditSubject {
  AuditedFile policy;
  std::vector<AuditedFile> ledgers;
  std::string judged_at;  // RFC 3339, UTC, seconds.
};

struct AuditReport {
  std::vector<RunVerdict> verdicts;  // One a run, in the order of the runs.
  AuditSubject subject;
};

// Reads the files once more. The digest of a ledger that is being written is that of what is in its main file. Errors:
// NotFound, InvalidArgument where one cannot be read.
absl::StatusOr<AuditSubject> DescribeAuditSubject(const std::string& policy_path,
                                                  const std::vector<std::string>& ledger_paths, absl::Time now);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_AUDIT_AUDIT_REPORT_H_
