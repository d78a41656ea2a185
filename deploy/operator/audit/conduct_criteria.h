// What a policy asks of how a run was conducted and of the model it made.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_AUDIT_CONDUCT_CRITERIA_H_
#define SPLITVEIL_DEPLOY_OPERATOR_AUDIT_CONDUCT_CRITERIA_H_

#include <vector>

#include "deploy/operator/audit/finding.h"
#include "deploy/operator/records/run_records.h"

#include "splitveil/v1/audit_policy.pb.h"

namespace splitveil {

// Status, disclosures, protections and gate decisions always; the model's quality where the policy limits it.
std::vector<Finding> ConductFindings(const LedgerRun& run, const v1::AuditPolicy& policy);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_AUDIT_CONDUCT_CRITERIA_H_
