// What two processes cost beside one, and what protection and audit cost: measured on this machine.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_BENCH_TRAINING_BENCH_H_
#define SPLITVEIL_DEPLOY_OPERATOR_BENCH_TRAINING_BENCH_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "deploy/operator/bench/training_bench_options.h"

namespace splitveil {

// The checks there are, in the order they run.
std::vector<std::string> TrainingCheckNames();

// Prints a line (CheckLine) for each check as it is done. A limit that is not met is no error: the line says so.
// Errors: InvalidArgument for an unknown check or fewer cores on this machine; those of the programs; Cancelled.
absl::Status RunTrainingBench(const TrainingBenchOptions& options);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_BENCH_TRAINING_BENCH_H_
