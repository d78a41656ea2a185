// The checks of the training benchmark: split training beside the same training in one process.
#ifndef SPLITVEIL_TESTS_BENCH_TRAINING_TRAINING_CHECKS_H_
#define SPLITVEIL_TESTS_BENCH_TRAINING_TRAINING_CHECKS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "tests/bench/training/bench_folder.h"

namespace splitveil {

struct TrainingBenchOptions {
  int cores = 2;                  // What all processes of a run share; >= 1.
  int rounds = 5;                 // How often each side of a ratio is measured, alternating; >= 1.
  int64_t steps = 200;            // Training steps per run, about; >= 1.
  int64_t cached_rows = 200'000;  // Of the memory check.
};

struct CheckLimit {
  enum class Side { kAtLeast, kAtMost, kBelow };
  Side side = Side::kAtLeast;
  double bound = 0;

  bool Holds(double value) const;  // False for NaN.
};

// What a check measured, the limit it is held against, and the figures behind it.
struct CheckOutcome {
  std::string name;
  double value = 0;
  CheckLimit limit;
  std::map<std::string, double> figures;
};

// `run` appends its outcomes. Errors: those of the programs; Cancelled.
struct TrainingCheck {
  const char* name;
  absl::Status (*run)(const TrainingBenchOptions& options, BenchFolder& folder, std::vector<CheckOutcome>& outcomes);
};

// In the order they run.
const std::vector<TrainingCheck>& TrainingChecks();

}  // namespace splitveil

#endif  // SPLITVEIL_TESTS_BENCH_TRAINING_TRAINING_CHECKS_H_
