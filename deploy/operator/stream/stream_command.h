// `splitveil stream`.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_STREAM_STREAM_COMMAND_H_
#define SPLITVEIL_DEPLOY_OPERATOR_STREAM_STREAM_COMMAND_H_

#include "common/command_line/command_line.h"

namespace splitveil {

// Adds `splitveil stream`.
void AddStreamCommand(CommandLine& line);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_STREAM_STREAM_COMMAND_H_
