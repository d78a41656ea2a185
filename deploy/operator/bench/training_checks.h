// The checks of `splitveil bench training`.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_BENCH_TRAINING_CHECKS_H_
#define SPLITVEIL_DEPLOY_OPERATOR_BENCH_TRAINING_CHECKS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "deploy/operator/bench/bench_folder.h"
#include "deploy/operator/bench/training_bench_options.h"

namespace splitveil {

// `run` appends the lines.
struct TrainingCheck {
  const char* name;
  absl::Status (*run)(const TrainingBenchOptions& options, BenchFolder& folder, std::vector<std::string>& lines);
};

// In the order they run.
const std::vector<TrainingCheck>& TrainingChecks();

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_BENCH_TRAINING_CHECKS_H_
