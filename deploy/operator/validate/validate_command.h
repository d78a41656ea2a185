// `splitveil validate`.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_VALIDATE_VALIDATE_COMMAND_H_
#define SPLITVEIL_DEPLOY_OPERATOR_VALIDATE_VALIDATE_COMMAND_H_

#include "common/command_line/command_line.h"

namespace splitveil {

// Adds `splitveil validate`.
void AddValidateCommand(CommandLine& line);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_VALIDATE_VALIDATE_COMMAND_H_
