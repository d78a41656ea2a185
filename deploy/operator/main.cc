// splitveil: prepares data and certificates, checks configurations, asks parties, audits runs, writes reports.
#include "deploy/operator/agreement/agreement_command.h"
#include "deploy/operator/align/align_command.h"
#include "deploy/operator/audit/audit_command.h"
#include "deploy/operator/certificates/certificates_command.h"
#include "deploy/operator/certificates/own_certificate_commands.h"
#include "deploy/operator/generate/generate_command.h"
#include "deploy/operator/init/init_command.h"
#include "deploy/operator/marvell/marvell_command.h"
#include "deploy/operator/plan/plan_command.h"
#include "deploy/operator/predict/predict_command.h"
#include "deploy/operator/prepare/prepare_command.h"
#include "deploy/operator/report/report.h"
#include "deploy/operator/report/report_command.h"
#include "deploy/operator/status/status_command.h"
#include "deploy/operator/stream/stream_command.h"
#include "deploy/operator/sweep/sweep_command.h"
#include "deploy/operator/transform/transform_command.h"
#include "deploy/operator/validate/validate_command.h"

#include "common/command_line/command_line.h"
#include "common/process/runtime.h"

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
  splitveil::AddValidateCommand(line);
  splitveil::AddAlignCommand(line);
  splitveil::AddStatusCommand(line);
  splitveil::AddTransformCommand(line);
  splitveil::AddPredictCommand(line);
  splitveil::AddReportCommand(line);
  splitveil::AddAuditCommand(line, &splitveil::WriteAuditReport);
  splitveil::AddSweepCommand(line);
  splitveil::AddStreamCommand(line);
  splitveil::AddMarvellCommand(line);
  splitveil::AddPlanCommand(line);
  return line.Main(argc, argv);
}
