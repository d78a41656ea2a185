// What the subcommands share that run both parties' programs on this machine.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_LOCAL_RUN_LOCAL_PROGRAMS_H_
#define SPLITVEIL_DEPLOY_OPERATOR_LOCAL_RUN_LOCAL_PROGRAMS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "deploy/operator/local_run/local_runs_options.h"

#include "common/process/flags.h"

namespace splitveil {

// Fills in --config, --out and --jobs (0: half the cores, for each run is two processes), the programs beside this one,
// and that the signals which end a program stop the runs in order. Errors: InvalidArgument.
absl::Status ReadLocalRuns(const Flags& flags, LocalRunsOptions& options);

// The folder this program lies in, with those of the parties beside it.
absl::StatusOr<std::string> OwnFolder();

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_LOCAL_RUN_LOCAL_PROGRAMS_H_
