// What the subcommands share that run both parties' programs on this machine.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_LOCAL_PROGRAMS_H_
#define SPLITVEIL_DEPLOY_OPERATOR_LOCAL_PROGRAMS_H_

#include <string>

#include "absl/status/statusor.h"

#include "common/process/flags.h"

namespace splitveil {

// Runs at a time, from --jobs; half the cores where that is 0. Errors: InvalidArgument.
absl::StatusOr<int> JobsOf(const Flags& flags);

// The folder this program lies in, with those of the parties beside it.
absl::StatusOr<std::string> OwnFolder();

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_LOCAL_PROGRAMS_H_
