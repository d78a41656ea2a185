// `splitveil plan`.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_PLAN_PLAN_COMMAND_H_
#define SPLITVEIL_DEPLOY_OPERATOR_PLAN_PLAN_COMMAND_H_

#include "common/command_line/command_line.h"

namespace splitveil {

// Adds `splitveil plan`.
void AddPlanCommand(CommandLine& line);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_PLAN_PLAN_COMMAND_H_
