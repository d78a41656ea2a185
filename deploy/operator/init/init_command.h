// `splitveil init`.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_INIT_INIT_COMMAND_H_
#define SPLITVEIL_DEPLOY_OPERATOR_INIT_INIT_COMMAND_H_

#include "common/command_line/command_line.h"

namespace splitveil {

// Adds `splitveil init`.
void AddInitCommand(CommandLine& line);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_INIT_INIT_COMMAND_H_
