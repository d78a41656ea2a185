// `splitveil sweep`.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_SWEEP_SWEEP_COMMAND_H_
#define SPLITVEIL_DEPLOY_OPERATOR_SWEEP_SWEEP_COMMAND_H_

#include "common/command_line/command_line.h"

namespace splitveil {

// Adds `splitveil sweep`.
void AddSweepCommand(CommandLine& line);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_SWEEP_SWEEP_COMMAND_H_
