#include "deploy/operator/audit/audit_verdict.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "deploy/operator/audit/bound_criteria.h"
#include "deploy/operator/audit/conduct_criteria.h"
#include "deploy/operator/audit/leak_criteria.h"

namespace splitveil {
namespace {

constexpr char kMissingRemedy[] =
    "Have it measured: name the attack in the agreement's audit.attacks or the label party's label_side_audit, and run "
    "again; or take the limit out of the policy.";

void Complete(Finding& finding, bool has_label_party) {
  if (finding.outcome == Outcome::kNotMeasured && !has_label_party) {
    finding.outcome = Outcome::kNotMeasurable;
    finding.found = "not measurable without the label party's ledger";
    finding.where.clear();
  }
  if (finding.outcome == Outcome::kNotMeasured) {
    finding.remedy = kMissingRemedy;
  } else if (finding.outcome != Outcome::kNotMet) {
    finding.remedy.clear();
  }
}

}  // namespace

bool RunVerdict::met() const {
  return !findings.empty() && std::all_of(findings.begin(), findings.end(),
                                          [](const Finding& finding) { return finding.outcome == Outcome::kMet; });
}

bool RunVerdict::failed() const {
  return findings.empty() ||
         std::any_of(findings.begin(), findings.end(), [](const Finding& finding) { return finding.failed(); });
}

std::vector<RunVerdict> JudgeRuns(const std::vector<RunRecords>& runs, const v1::AuditPolicy& policy) {
  std::vector<RunVerdict> verdicts;
  for (const RunRecords& run : runs) {
    RunVerdict verdict = {run.run_id(), run.label, ConductFindings(run, policy), RankRun(run)};
    for (const auto findings_of : {LeakFindings, BoundFindings}) {
      for (Finding& finding : findings_of(run, policy)) {
        verdict.findings.push_back(std::move(finding));
      }
    }
    for (Finding& finding : verdict.findings) {
      Complete(finding, run.label_party() != nullptr);
    }
    verdicts.push_back(std::move(verdict));
  }
  return verdicts;
}

bool PolicyMet(const std::vector<RunVerdict>& verdicts) {
  return !verdicts.empty() &&
         std::all_of(verdicts.begin(), verdicts.end(), [](const RunVerdict& verdict) { return verdict.met(); });
}

bool PolicyFailed(const std::vector<RunVerdict>& verdicts) {
  return verdicts.empty() ||
         std::any_of(verdicts.begin(), verdicts.end(), [](const RunVerdict& verdict) { return verdict.failed(); });
}

}  // namespace splitveil
