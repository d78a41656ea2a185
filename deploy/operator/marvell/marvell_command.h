// `splitveil marvell`.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_MARVELL_MARVELL_COMMAND_H_
#define SPLITVEIL_DEPLOY_OPERATOR_MARVELL_MARVELL_COMMAND_H_

#include "common/command_line/command_line.h"

namespace splitveil {

// Adds `splitveil marvell`.
void AddMarvellCommand(CommandLine& line);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_MARVELL_MARVELL_COMMAND_H_
