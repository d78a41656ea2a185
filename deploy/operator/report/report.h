// The leak report and the audit's page: everything the ledgers hold about their runs, as one HTML file that opens
// offline.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_REPORT_REPORT_H_
#define SPLITVEIL_DEPLOY_OPERATOR_REPORT_REPORT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "deploy/operator/audit/audit_report.h"
#include "deploy/operator/records/run_records.h"

#include "common/figures/json_number.h"

namespace splitveil {

// Writes the runs of all ledgers to `out_path`, replacing it whole. Ledgers of both parties may be mixed: what they
// hold of one run (same run_id and agreement) is shown together. The page loads nothing, from no network and no other
// file, and its content security policy lets only its own two scripts run. Same ledgers, same bytes. Errors:
// InvalidArgument for no ledger, a file that is none, one without a run, or the same party of a run twice; NotFound for
// a missing ledger or folder; what the disk says otherwise.
absl::Status WriteReport(const std::vector<std::string>& ledger_paths, const std::string& out_path);

// The audit's own page: the verdicts, what was judged by which policy and when, and below them the report on `runs`.
absl::Status WriteAuditReport(const std::vector<LedgerRun>& runs, const AuditReport& audit,
                              const std::string& out_path);

// `audit`: its verdicts stand beside the runs, one a run. Null: none was held.
Json ReportJson(const std::vector<LedgerRun>& runs, const AuditReport* audit);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_REPORT_REPORT_H_
