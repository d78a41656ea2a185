#include "deploy/operator/audit/audit_verdict.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "deploy/operator/audit/conduct_criteria.h"
#include "deploy/operator/audit/leak_criteria.h"

namespace splitveil {

bool RunVerdict::met() const {
  return !findings.empty() && std::all_of(findings.begin(), findings.end(),
                                          [](const Finding& finding) { return finding.outcome == Outcome::kMet; });
}

std::vector<RunVerdict> JudgeRuns(const std::vector<RunRecords>& runs, const v1::AuditPolicy& policy) {
  std::vector<RunVerdict> verdicts;
  for (const RunRecords& run : runs) {
    RunVerdict verdict = {run.run_id(), run.label, ConductFindings(run, policy)};
    for (Finding& finding : LeakFindings(run, policy)) {
      verdict.findings.push_back(std::move(finding));
    }
    for (Finding& finding : verdict.findings) {
      if (run.label_party() == nullptr && finding.outcome == Outcome::kNotMeasured) {
        finding.where = "stands in the label party's ledger: give that too";
      }
    }
    verdicts.push_back(std::move(verdict));
  }
  return verdicts;
}

bool PolicyMet(const std::vector<RunVerdict>& verdicts) {
  return !verdicts.empty() &&
         std::all_of(verdicts.begin(), verdicts.end(), [](const RunVerdict& verdict) { return verdict.met(); });
}

}  // namespace splitveil
