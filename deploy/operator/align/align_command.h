// `splitveil align`.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_ALIGN_ALIGN_COMMAND_H_
#define SPLITVEIL_DEPLOY_OPERATOR_ALIGN_ALIGN_COMMAND_H_

#include "common/command_line/command_line.h"

namespace splitveil {

// Adds `splitveil align`.
void AddAlignCommand(CommandLine& line);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_ALIGN_ALIGN_COMMAND_H_
