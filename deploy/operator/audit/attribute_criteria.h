// What a policy asks of the other direction: what the label party reads of sensitive attributes in the activations.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_AUDIT_ATTRIBUTE_CRITERIA_H_
#define SPLITVEIL_DEPLOY_OPERATOR_AUDIT_ATTRIBUTE_CRITERIA_H_

#include <vector>

#include "deploy/operator/audit/finding.h"
#include "deploy/operator/records/run_records.h"

#include "splitveil/v1/audit_policy.pb.h"

namespace splitveil {

// One finding for each limit that the policy sets, for the activations' bound alone of a run that only predicts. All
// stand in the non-label party's ledger.
std::vector<Finding> AttributeFindings(const LedgerRun& run, const v1::AuditPolicy& policy);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_AUDIT_ATTRIBUTE_CRITERIA_H_
