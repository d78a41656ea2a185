// Whether recorded runs meet a privacy policy.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_AUDIT_AUDIT_VERDICT_H_
#define SPLITVEIL_DEPLOY_OPERATOR_AUDIT_AUDIT_VERDICT_H_

#include <string>
#include <vector>

#include "deploy/operator/audit/finding.h"
#include "deploy/operator/records/run_records.h"

#include "splitveil/v1/audit_policy.pb.h"

namespace splitveil {

struct RunVerdict {
  std::string run_id, label;
  std::vector<Finding> findings;  // One at least, the same criteria in the same order for every run.

  bool met() const;
};

// One verdict a run. Figures are taken from the label party's ledger only: it alone has them exact and complete.
// Without it they count as not measured. `policy` as LoadAuditPolicy gives it.
std::vector<RunVerdict> JudgeRuns(const std::vector<RunRecords>& runs, const v1::AuditPolicy& policy);

// Whether every run meets the policy; false for no run.
bool PolicyMet(const std::vector<RunVerdict>& verdicts);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_AUDIT_AUDIT_VERDICT_H_
