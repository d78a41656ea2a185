#include "deploy/operator/audit/audit_verdict.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "deploy/operator/audit/attribute_criteria.h"
#include "deploy/operator/audit/bound_criteria.h"
#include "deploy/operator/audit/conduct_criteria.h"
#include "deploy/operator/audit/leak_criteria.h"
#include "deploy/operator/records/attribute_records.h"
#include "deploy/operator/records/ledger_figures.h"

namespace splitveil {
namespace {

constexpr char kMissingRemedy[] =
    "Have it measured: name the attack in the agreement's audit.attacks or the label party's label_side_audit, and run "
    "again; or take the limit out of the policy.";

using Criteria = std::vector<Finding> (*)(const LedgerRun& run, const v1::AuditPolicy& policy);

void Complete(Finding& finding, const LedgerRun& run) {
  const bool of_label_party = finding.holder == LedgerHolder::kLabelParty;
  const PartyRecords* holder = of_label_party ? run.label_party() : run.nonlabel_party();
  if (finding.outcome == Outcome::kNotMeasured && holder == nullptr) {
    finding.outcome = Outcome::kNotMeasurable;
    finding.found = absl::StrCat("not measurable without the ", finding.holder_words(), " ledger");
    finding.where.clear();
  }
  if (finding.outcome == Outcome::kNotMeasured) {
    finding.remedy = of_label_party ? kMissingRemedy : finding.remedy;
  } else if (finding.outcome != Outcome::kNotMet) {
    finding.remedy.clear();
  }
}

}  // namespace

bool RunVerdict::met() const {
  return (only_predicts || !findings.empty()) &&
         std::all_of(findings.begin(), findings.end(),
                     [](const Finding& finding) { return finding.outcome == Outcome::kMet; });
}

bool RunVerdict::failed() const {
  return (!only_predicts && findings.empty()) ||
         std::any_of(findings.begin(), findings.end(), [](const Finding& finding) { return finding.failed(); });
}

std::vector<RunVerdict> JudgeRuns(const std::vector<LedgerRun>& runs, const v1::AuditPolicy& policy) {
  std::vector<RunVerdict> verdicts;
  for (const LedgerRun& run : runs) {
    RunVerdict verdict = {run.run_id(), run.label, {}, FiguresOf(run)};
    verdict.only_predicts = run.only_predicts();
    if (const std::optional<AttributeRecords> attributes = AttributeRecordsOf(run); attributes.has_value()) {
      verdict.attribute_lines = AttributeLines(*attributes);
    }
    const std::vector<Criteria> criteria =
        verdict.only_predicts ? std::vector<Criteria>{AttributeFindings}
                              : std::vector<Criteria>{ConductFindings, LeakFindings, BoundFindings, AttributeFindings};
    for (const Criteria findings_of : criteria) {
      for (Finding& finding : findings_of(run, policy)) {
        verdict.findings.push_back(std::move(finding));
      }
    }
    for (Finding& finding : verdict.findings) {
      Complete(finding, run);
    }
    verdicts.push_back(std::move(verdict));
  }
  return verdicts;
}

bool PolicyMet(const std::vector<RunVerdict>& verdicts) {
  return !std::all_of(verdicts.begin(), verdicts.end(), [](const RunVerdict& verdict) {
    return verdict.only_predicts;
  }) && std::all_of(verdicts.begin(), verdicts.end(), [](const RunVerdict& verdict) { return verdict.met(); });
}

bool PolicyFailed(const std::vector<RunVerdict>& verdicts) {
  return verdicts.empty() ||
         std::any_of(verdicts.begin(), verdicts.end(), [](const RunVerdict& verdict) { return verdict.failed(); });
}

}  // namespace splitveil
