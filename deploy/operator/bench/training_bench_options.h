// What the training benchmark measures, and with how much.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_BENCH_TRAINING_BENCH_OPTIONS_H_
#define SPLITVEIL_DEPLOY_OPERATOR_BENCH_TRAINING_BENCH_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace splitveil {

struct TrainingBenchOptions {
  std::vector<std::string> checks;  // Names; empty: all.
  std::string folder;               // Made for the runs, and removed.
  std::string programs;             // The folder of splitveil, label_party, nonlabel_party and centralized_baseline.
  int cores = 2;                    // What all processes of a run share; >= 1.
  int rounds = 5;                   // Turns of each side of a ratio; >= 1.
  int64_t steps = 200;              // Training steps per run, about; >= 1.
  int64_t cached_rows = 200'000;    // Of the memory check.
  std::function<bool()> stop_requested;
};

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_BENCH_TRAINING_BENCH_OPTIONS_H_
