// `splitveil transform`.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_TRANSFORM_TRANSFORM_COMMAND_H_
#define SPLITVEIL_DEPLOY_OPERATOR_TRANSFORM_TRANSFORM_COMMAND_H_

#include "common/command_line/command_line.h"

namespace splitveil {

void AddTransformCommand(CommandLine& line);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_TRANSFORM_TRANSFORM_COMMAND_H_
