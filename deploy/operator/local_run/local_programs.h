// What the commands share that run both parties' programs on this machine.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_LOCAL_RUN_LOCAL_PROGRAMS_H_
#define SPLITVEIL_DEPLOY_OPERATOR_LOCAL_RUN_LOCAL_PROGRAMS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "deploy/operator/local_run/local_runs_options.h"

namespace splitveil {

// Once the flags are read: fills in the programs beside this one and, where `jobs` is 0, half the cores, for each run
// is two processes; and has the signals that end a program stop the runs in order. Errors: Internal.
absl::Status FindLocalPrograms(LocalRunsOptions& options);

// The folder this program lies in, with those of the parties beside it.
absl::StatusOr<std::string> OwnFolder();

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_LOCAL_RUN_LOCAL_PROGRAMS_H_
