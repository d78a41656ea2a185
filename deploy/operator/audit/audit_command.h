// `splitveil audit`.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_AUDIT_AUDIT_COMMAND_H_
#define SPLITVEIL_DEPLOY_OPERATOR_AUDIT_AUDIT_COMMAND_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "deploy/operator/audit/audit_report.h"
#include "deploy/operator/records/run_records.h"

#include "common/command_line/command_line.h"

namespace splitveil {

// Writes runs with their verdicts to a page: WriteAuditReport of deploy/operator/report, which itself shows verdicts
// and so depends on this folder.
using VerdictPageWriter = absl::Status (*)(const std::vector<LedgerRun>& runs, const AuditReport& audit,
                                           const std::string& out_path);

// Adds `splitveil audit`.
void AddAuditCommand(CommandLine& line, VerdictPageWriter write_page);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_AUDIT_AUDIT_COMMAND_H_
