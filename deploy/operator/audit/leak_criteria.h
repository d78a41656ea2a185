// What a policy asks of the leaks that were measured.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_AUDIT_LEAK_CRITERIA_H_
#define SPLITVEIL_DEPLOY_OPERATOR_AUDIT_LEAK_CRITERIA_H_

#include <vector>

#include "absl/strings/string_view.h"
#include "deploy/operator/audit/finding.h"
#include "deploy/operator/records/run_records.h"

#include "splitveil/v1/audit_policy.pb.h"

namespace splitveil {

// The share audited always; leaks and true positive rates where the policy limits them.
std::vector<Finding> LeakFindings(const LedgerRun& run, const v1::AuditPolicy& policy);

// Whether all of `text` is as `pattern` says: * stands for any text, also none, ? for any one character.
bool MatchesGlob(absl::string_view pattern, absl::string_view text);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_AUDIT_LEAK_CRITERIA_H_
