#include "deploy/operator/audit/audit_command.h"

#include <cstdio>
#include <memory>
#include <utility>

#include "absl/time/clock.h"
#include "deploy/operator/audit/audit_policy.h"
#include "deploy/operator/audit/verdict_text.h"

#include "common/status/status_macros.h"

namespace splitveil {
namespace {

struct AuditFlags {
  std::vector<std::string> ledgers;
  std::string policy;
  std::string report;
  bool verbose = false;
};

absl::StatusOr<ExitCode> Audit(const AuditFlags& flags, VerdictPageWriter write_page) {
  SPLITVEIL_ASSIGN_OR_RETURN(const v1::AuditPolicy policy, LoadAuditPolicy(flags.policy));
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<LedgerRun> runs, ReadRuns(flags.ledgers));
  const std::vector<RunVerdict> verdicts = JudgeRuns(runs, policy);
  if (!flags.report.empty()) {
    SPLITVEIL_ASSIGN_OR_RETURN(AuditSubject subject, DescribeAuditSubject(flags.policy, flags.ledgers, absl::Now()));
    SPLITVEIL_RETURN_IF_ERROR(write_page(runs, {verdicts, std::move(subject)}, flags.report));
  }
  std::fputs(VerdictText(verdicts, flags.verbose).c_str(), stdout);
  return PolicyMet(verdicts) ? ExitCode::kDone : ExitCode::kPolicyNotMet;
}

}  // namespace

void AddAuditCommand(CommandLine& line, VerdictPageWriter write_page) {
  const auto flags = std::make_shared<AuditFlags>();
  CLI::App& command = line.AddCommand(
      {"audit", "Check runs against a privacy policy. Exits with 0 if every run meets it, with 10 otherwise.",
       "splitveil audit --policy=policy.textproto --ledger=label_party.db --report=audit.html", "After a run"},
      [flags, write_page] { return Audit(*flags, write_page); });
  command.add_option("--ledger", flags->ledgers, "Ledger of a run; the figures on leakage are in the label party's.")
      ->type_name("FILE")
      ->required();
  command.add_option("--policy", flags->policy, "The policy.")->type_name("FILE")->required();
  command.add_option("--report", flags->report, "Also write the verdict and the report to this HTML file.")
      ->type_name("FILE");
  command.add_flag("--verbose", flags->verbose, "List the criteria that hold and the figures of each run, too.");
}

}  // namespace splitveil
