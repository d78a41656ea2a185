#include "deploy/operator/report/report.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "deploy/operator/audit/audit_report.h"
#include "deploy/operator/commands.h"
#include "deploy/operator/page/page.h"

#include "common/page/embedded.h"
#include "common/process/file.h"
#include "common/status/status_macros.h"
#include "common/telemetry/log.h"

namespace splitveil {

SPLITVEIL_EMBEDDED(ReportHtml);
SPLITVEIL_EMBEDDED(ReportCss);
SPLITVEIL_EMBEDDED(ReportJs);

namespace {

// A reader of `path` sees the old page or the new one, never half of it.
absl::Status ReplaceFile(const std::string& path, const std::string& contents) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (!folder.empty() && !std::filesystem::is_directory(folder, error)) {
    return absl::NotFoundError(absl::StrCat(path, ": its folder does not exist"));
  }
  SPLITVEIL_RETURN_IF_ERROR(CheckOwnPage(path));
  return WriteFile(path, contents);
}

}  // namespace

absl::Status WriteReport(const std::vector<std::string>& ledger_paths, const std::string& out_path) {
  SPLITVEIL_ASSIGN_OR_RETURN(std::vector<LedgerRun> runs, ReadRuns(ledger_paths));
  // Predictions train nothing and send no gradient: beside runs that do, they would only be in the way.
  const auto predictions =
      std::stable_partition(runs.begin(), runs.end(), [](const LedgerRun& run) { return !run.only_predicts(); });
  if (predictions != runs.begin() && predictions != runs.end()) {
    LogInfo("runs left out of the report, as they only predict: ", runs.end() - predictions);
    runs.erase(predictions, runs.end());
  }
  return ReplaceFile(
      out_path, RenderPage({EmbeddedReportHtml(), "Splitveil leak report", EmbeddedReportCss(), EmbeddedReportJs()},
                           ReportJson(runs, nullptr)));
}

absl::Status WriteAuditReport(const std::vector<LedgerRun>& runs, const AuditReport& audit,
                              const std::string& out_path) {
  return ReplaceFile(out_path,
                     RenderPage({EmbeddedReportHtml(), "Splitveil audit", EmbeddedReportCss(), EmbeddedReportJs()},
                                ReportJson(runs, &audit)));
}

namespace {

struct ReportFlags {
  std::vector<std::string> ledgers;
  std::string out;
};

absl::StatusOr<ExitCode> Report(const ReportFlags& flags) {
  SPLITVEIL_RETURN_IF_ERROR(WriteReport(flags.ledgers, flags.out));
  std::printf("%s\n", flags.out.c_str());
  return ExitCode::kDone;
}

}  // namespace

void AddReportCommand(CommandLine& line) {
  const auto flags = std::make_shared<ReportFlags>();
  CLI::App& command = line.AddCommand(
      {"report", "Write a report on recorded runs: one HTML file that opens offline.",
       "splitveil report --ledger=none.label_party.db --ledger=marvell.label_party.db --out=report.html",
       "After a run"},
      [flags] { return Report(*flags); });
  AddValue(command, "--ledger=FILE", flags->ledgers, "Ledger of a run, of either party.")->required();
  AddValue(command, "--out=FILE", flags->out, "HTML file to write.")->required();
}

namespace {

struct AuditFlags {
  std::vector<std::string> ledgers;
  std::string policy;
  std::string report;
  bool verbose = false;
};

absl::StatusOr<ExitCode> Audit(const AuditFlags& flags) {
  SPLITVEIL_ASSIGN_OR_RETURN(const v1::AuditPolicy policy, LoadAuditPolicy(flags.policy));
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<LedgerRun> runs, ReadRuns(flags.ledgers));
  const std::vector<RunVerdict> verdicts = JudgeRuns(runs, policy);
  if (!flags.report.empty()) {
    SPLITVEIL_ASSIGN_OR_RETURN(AuditSubject subject, DescribeAuditSubject(flags.policy, flags.ledgers, absl::Now()));
    SPLITVEIL_RETURN_IF_ERROR(WriteAuditReport(runs, {verdicts, std::move(subject)}, flags.report));
  }
  std::fputs(VerdictText(verdicts, flags.verbose).c_str(), stdout);
  return PolicyMet(verdicts) ? ExitCode::kDone : ExitCode::kPolicyNotMet;
}

}  // namespace

void AddAuditCommand(CommandLine& line) {
  const auto flags = std::make_shared<AuditFlags>();
  CLI::App& command = line.AddCommand(
      {"audit", "Check runs against a privacy policy. Exits with 0 if every run meets it, with 10 otherwise.",
       "splitveil audit --policy=policy.textproto --ledger=label_party.db --report=audit.html", "After a run"},
      [flags] { return Audit(*flags); });
  AddValue(command, "--ledger=FILE", flags->ledgers,
           "Ledger of a run; the figures on leakage are in the label party's.")
      ->required();
  AddValue(command, "--policy=FILE", flags->policy, "The policy.")->required();
  AddValue(command, "--report=FILE", flags->report, "Also write the verdict and the report to this HTML file.");
  command.add_flag("--verbose", flags->verbose, "List the criteria that hold and the figures of each run, too.");
}

}  // namespace splitveil
