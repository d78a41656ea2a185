// Verdicts as lines of text.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_AUDIT_VERDICT_TEXT_H_
#define SPLITVEIL_DEPLOY_OPERATOR_AUDIT_VERDICT_TEXT_H_

#include <string>
#include <vector>

#include "deploy/operator/audit/audit_verdict.h"

namespace splitveil {

// For each run its name, its strongest attack and the bound's state, and one line a criterion that was judged, in
// aligned columns (PASS or FAIL, criterion, limit, found, where); one line for all that these ledgers cannot show; what
// helps against the failures. Then one closing line. Text from a ledger cannot steer a terminal.
std::string VerdictText(const std::vector<RunVerdict>& verdicts);

// "policy met: 9 criteria, 1 run", "policy not met: 2 of 9 criteria, 1 of 1 run" or, where nothing failed but not all
// is measurable, "policy not decided: 2 of 9 criteria met, 7 not measurable from the ledgers given, 1 run".
std::string VerdictSummary(const std::vector<RunVerdict>& verdicts);

// The remedies of the run's failures, each once: "Mean AUC ...: Raise marvell's s".
std::vector<std::string> Remedies(const RunVerdict& verdict);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_AUDIT_VERDICT_TEXT_H_
