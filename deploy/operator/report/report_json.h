// The report's figures and sentences as JSON: what page/report.js lays out.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_REPORT_REPORT_JSON_H_
#define SPLITVEIL_DEPLOY_OPERATOR_REPORT_REPORT_JSON_H_

#include <vector>

#include "deploy/operator/audit/audit_report.h"
#include "deploy/operator/records/run_records.h"

#include "common/figures/json_number.h"

namespace splitveil {

// `audit`: its verdicts stand beside the runs, one a run. Null: none was held.
Json ReportJson(const std::vector<LedgerRun>& runs, const AuditReport* audit);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_REPORT_REPORT_JSON_H_
