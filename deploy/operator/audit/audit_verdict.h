// Whether recorded runs meet a privacy policy.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_AUDIT_AUDIT_VERDICT_H_
#define SPLITVEIL_DEPLOY_OPERATOR_AUDIT_AUDIT_VERDICT_H_

#include <cstddef>
#include <string>
#include <vector>

#include "deploy/operator/audit/finding.h"
#include "deploy/operator/records/run_records.h"

#include "common/figures/run_figures.h"

#include "splitveil/v1/audit_policy.pb.h"

namespace splitveil {

struct RunVerdict {
  std::string run_id, label;
  // The same criteria in the same order for every run that trains, one at least.
  std::vector<Finding> findings;
  RunFigures figures = {};
  std::vector<std::string> attribute_lines = {};  // AttributeLines; empty where they say nothing.
  bool only_predicts = false;                     // LedgerRun::only_predicts: held to what limits activations alone.

  bool met() const;
  // Whether any criterion failed. Neither met nor failed: what the ledgers given can show is met, the rest is open.
  bool failed() const;
};

// One verdict per run. Figures on labels are taken from the label party's ledger only, those on attributes from the
// non-label party's: it alone has them exact and complete. Without it they are not measurable, and what the other
// ledger does show is judged alone. A run that only predicts releases no gradient and is attacked by nobody: of it a
// policy limits the bound of the activations alone. `policy` as LoadAuditPolicy gives it.
std::vector<RunVerdict> JudgeRuns(const std::vector<LedgerRun>& runs, const v1::AuditPolicy& policy);

// Whether every run meets the policy in every criterion; false where none trains.
bool PolicyMet(const std::vector<RunVerdict>& verdicts);

// Whether some run fails a criterion. Neither this nor PolicyMet: not decided.
bool PolicyFailed(const std::vector<RunVerdict>& verdicts);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_AUDIT_AUDIT_VERDICT_H_
