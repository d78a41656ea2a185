// `splitveil generate`.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_GENERATE_GENERATE_COMMAND_H_
#define SPLITVEIL_DEPLOY_OPERATOR_GENERATE_GENERATE_COMMAND_H_

#include "common/command_line/command_line.h"

namespace splitveil {

// Adds `splitveil generate`.
void AddGenerateCommand(CommandLine& line);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_GENERATE_GENERATE_COMMAND_H_
