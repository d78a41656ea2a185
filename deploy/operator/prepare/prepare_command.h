// `splitveil prepare`.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_PREPARE_PREPARE_COMMAND_H_
#define SPLITVEIL_DEPLOY_OPERATOR_PREPARE_PREPARE_COMMAND_H_

#include "common/command_line/command_line.h"

namespace splitveil {

// Adds `splitveil prepare`.
void AddPrepareCommand(CommandLine& line);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_PREPARE_PREPARE_COMMAND_H_
