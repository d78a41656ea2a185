// What a policy asks of the bounds that a run states, and what it may not contradict.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_AUDIT_BOUND_CRITERIA_H_
#define SPLITVEIL_DEPLOY_OPERATOR_AUDIT_BOUND_CRITERIA_H_

#include <vector>

#include "deploy/operator/audit/finding.h"
#include "deploy/operator/records/run_records.h"

#include "splitveil/v1/audit_policy.pb.h"

namespace splitveil {

// Bounds of the run and of its steps where the policy limits them, that they are proved where it asks for that, and
// that no attack exceeds them; always, where the run has recorded it, that its own scores do not refute the mu that it
// claims. A run of which no gradient left meets all of them.
std::vector<Finding> BoundFindings(const LedgerRun& run, const v1::AuditPolicy& policy);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_AUDIT_BOUND_CRITERIA_H_
