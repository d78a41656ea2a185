// `splitveil report`.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_REPORT_REPORT_COMMAND_H_
#define SPLITVEIL_DEPLOY_OPERATOR_REPORT_REPORT_COMMAND_H_

#include "common/command_line/command_line.h"

namespace splitveil {

// Adds `splitveil report`.
void AddReportCommand(CommandLine& line);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_REPORT_REPORT_COMMAND_H_
