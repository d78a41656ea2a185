#include <cstdio>
#include <string>
#include <vector>

#include "deploy/operator/audit/audit_policy.h"
#include "deploy/operator/audit/audit_verdict.h"
#include "deploy/operator/audit/verdict_text.h"
#include "deploy/operator/command.h"
#include "deploy/operator/records/run_records.h"
#include "deploy/operator/report/report.h"

#include "common/status/status_macros.h"

namespace splitveil {
namespace {

absl::StatusOr<ExitCode> Audit(const Flags& flags) {
  SPLITVEIL_ASSIGN_OR_RETURN(const v1::AuditPolicy policy, LoadAuditPolicy(flags.Get("policy")));
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<RunRecords> runs, ReadRuns(flags.GetList("ledger")));
  const std::vector<RunVerdict> verdicts = JudgeRuns(runs, policy);
  if (!flags.Get("report").empty()) {
    SPLITVEIL_RETURN_IF_ERROR(WriteReport(runs, verdicts, flags.Get("report")));
  }
  std::fputs(VerdictText(verdicts).c_str(), stdout);
  return PolicyMet(verdicts) ? ExitCode::kDone : ExitCode::kPolicyNotMet;
}

}  // namespace

Command AuditCommand() {
  return {"audit",
          "Hold recorded runs to a privacy policy: exit 0 if all meet it, 10 if not.",
          {{"ledger", "", "Ledger of either party; figures need the label party's.", /*required=*/true,
            /*is_switch=*/false, /*is_list=*/true},
           {"policy", "", "The policy (policy.textproto).", /*required=*/true},
           {"report", "", "HTML file to write: the verdict and the report."}},
          nullptr,
          Audit};
}

}  // namespace splitveil
