// `splitveil bench ...`.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_BENCH_BENCH_COMMANDS_H_
#define SPLITVEIL_DEPLOY_OPERATOR_BENCH_BENCH_COMMANDS_H_

#include "common/command_line/command_line.h"

namespace splitveil {

// Adds `splitveil bench alignment`, `bench marvell` and `bench training`.
void AddBenchAlignmentCommand(CommandLine& line);
void AddBenchMarvellCommand(CommandLine& line);
void AddBenchTrainingCommand(CommandLine& line);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_BENCH_BENCH_COMMANDS_H_
