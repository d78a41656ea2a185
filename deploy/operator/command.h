// The subcommands of `splitveil`, the operator's tool.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_COMMAND_H_
#define SPLITVEIL_DEPLOY_OPERATOR_COMMAND_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/process/exit_code.h"
#include "common/process/flags.h"

namespace splitveil {

// One subcommand, with either `run` or `judge`. It prints its result on standard output and returns its error, which
// main prints and turns into the exit code. `judge`, whose result is a verdict, also returns the code that says it.
struct Command {
  std::string name;     // One word or two.
  std::string summary;  // One line.
  std::vector<FlagSpec> flags;
  absl::Status (*run)(const Flags& flags);
  absl::StatusOr<ExitCode> (*judge)(const Flags& flags) = nullptr;
};

Command AuditCommand();           // audit.cc
Command BenchAlignmentCommand();  // bench_alignment.cc
Command BenchMarvellCommand();    // bench_marvell.cc
Command BenchTrainingCommand();   // bench_training.cc
Command CertificatesCommand();    // certificates.cc
Command GenerateCommand();        // generate.cc
Command MarvellCommand();         // marvell.cc
Command PrepareCommand();         // prepare.cc
Command ReportCommand();          // report.cc
Command StatusCommand();          // status.cc
Command StreamCommand();          // stream.cc
Command SweepCommand();           // sweep.cc
Command ValidateCommand();        // validate.cc

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_COMMAND_H_
