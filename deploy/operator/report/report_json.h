// The report's figures and sentences as JSON: what page/report.js lays out.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_REPORT_REPORT_JSON_H_
#define SPLITVEIL_DEPLOY_OPERATOR_REPORT_REPORT_JSON_H_

#include <string>
#include <vector>

#include "deploy/operator/audit/audit_verdict.h"
#include "deploy/operator/records/run_records.h"

namespace splitveil {

// One JSON object, safe inside a <script> element: '<', '>' and '&' are escaped, and text that is not UTF-8 is
// replaced. `verdicts`: one a run, or none.
std::string ReportJson(const std::vector<RunRecords>& runs, const std::vector<RunVerdict>& verdicts);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_REPORT_REPORT_JSON_H_
