// Verdicts as lines of text.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_AUDIT_VERDICT_TEXT_H_
#define SPLITVEIL_DEPLOY_OPERATOR_AUDIT_VERDICT_TEXT_H_

#include <string>
#include <vector>

#include "deploy/operator/audit/audit_verdict.h"

namespace splitveil {

// For each run its name and one line a criterion, in aligned columns (PASS or FAIL, criterion, limit, found, where);
// then one closing line. Text from a ledger cannot steer a terminal.
std::string VerdictText(const std::vector<RunVerdict>& verdicts);

// "policy met: 9 criteria, 1 run" or "policy not met: 2 of 9 criteria, 1 of 1 run".
std::string VerdictSummary(const std::vector<RunVerdict>& verdicts);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_AUDIT_VERDICT_TEXT_H_
