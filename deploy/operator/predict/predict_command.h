// `splitveil predict`.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_PREDICT_PREDICT_COMMAND_H_
#define SPLITVEIL_DEPLOY_OPERATOR_PREDICT_PREDICT_COMMAND_H_

#include "common/command_line/command_line.h"

namespace splitveil {

void AddPredictCommand(CommandLine& line);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_PREDICT_PREDICT_COMMAND_H_
