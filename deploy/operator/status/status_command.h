// `splitveil status`.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_STATUS_STATUS_COMMAND_H_
#define SPLITVEIL_DEPLOY_OPERATOR_STATUS_STATUS_COMMAND_H_

#include "common/command_line/command_line.h"

namespace splitveil {

// Adds `splitveil status`.
void AddStatusCommand(CommandLine& line);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_STATUS_STATUS_COMMAND_H_
