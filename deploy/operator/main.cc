// splitveil: prepares data and certificates, checks configurations, asks parties, audits and scores, writes reports.
#include "deploy/operator/commands.h"

#include "common/command_line/command_line.h"
#include "common/process/runtime.h"

// Not every library says that it does not throw, and nothing is lost if the tool ends.
// NOLINTNEXTLINE(bugprone-exception-escape)
int main(int argc, char** argv) {
  splitveil::ForbidCoreDumps();
  splitveil::SilenceGrpc();
  splitveil::CommandLine line(
      {"splitveil", "The operator's tool of Splitveil: everything around a training run.", "splitveil prepare --help"});
  splitveil::AddInitCommand(line);
  splitveil::AddGenerateCommand(line);
  splitveil::AddPrepareCommand(line);
  splitveil::AddCertificatesCommand(line);
  splitveil::AddOwnCertificateCommands(line);
  splitveil::AddAgreementCommands(line);
  splitveil::AddBaselineCommand(line);
  splitveil::AddValidateCommand(line);
  splitveil::AddAlignCommand(line);
  splitveil::AddStatusCommand(line);
  splitveil::AddTransformCommand(line);
  splitveil::AddPredictCommand(line);
  splitveil::AddScoreCommand(line);
  splitveil::AddReportCommand(line);
  splitveil::AddAuditCommand(line);
  splitveil::AddSweepCommand(line);
  splitveil::AddTuneCommand(line);
  splitveil::AddStreamCommand(line);
  splitveil::AddMarvellCommand(line);
  splitveil::AddPlanCommand(line);
  return line.Main(argc, argv);
}
