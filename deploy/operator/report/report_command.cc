#include "deploy/operator/report/report_command.h"

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "deploy/operator/report/report.h"

#include "common/status/status_macros.h"

namespace splitveil {
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
  command.add_option("--ledger", flags->ledgers, "Ledger of a run, of either party.")->type_name("FILE")->required();
  command.add_option("--out", flags->out, "HTML file to write.")->type_name("FILE")->required();
}

}  // namespace splitveil
