// One run for a benchmark, and what its records say of it.
#ifndef SPLITVEIL_TESTS_BENCH_TRAINING_BENCH_RUNS_H_
#define SPLITVEIL_TESTS_BENCH_TRAINING_BENCH_RUNS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "deploy/operator/local_run/local_run.h"

#include "common/ledger/ledger.h"
#include "tests/bench/training/bench_folder.h"

namespace splitveil {

// NaN, 0: not known of this kind of run.
struct BenchRun {
  double examples_per_second = 0;  // Of the training steps; alignment and evaluation left out.
  double test_auc = 0;             // Of the best epoch.
  double step_milliseconds = 0;    // Median.
  double bytes_per_step = 0;       // Of the messages, both ways, over full batches.
  // Means over the steps, seconds.
  StepRow label_step, nonlabel_step;
  StepTimeRow label_times, nonlabel_times;
};

// Both parties' programs over mutual TLS on the loopback interface. Speeds are those the non-label party saw: it
// drives, and its steps leave no moment of an epoch out.
absl::StatusOr<BenchRun> RunSplit(const LocalRun& run, BenchFolder& folder);
// The same, and the non-label party's peak resident memory (VmHWM) in `peak_bytes`.
absl::StatusOr<BenchRun> RunSplitForMemory(const LocalRun& run, BenchFolder& folder, int64_t& peak_bytes);
// `centralized_baseline` on so many threads.
absl::StatusOr<BenchRun> RunCentralizedBaseline(const LocalRun& run, int threads, BenchFolder& folder);

}  // namespace splitveil

#endif  // SPLITVEIL_TESTS_BENCH_TRAINING_BENCH_RUNS_H_
