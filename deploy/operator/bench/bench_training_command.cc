#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "deploy/operator/bench/training_bench.h"
#include "deploy/operator/command.h"
#include "deploy/operator/local_run/local_programs.h"

#include "common/process/runtime.h"

namespace splitveil {
namespace {

absl::Status BenchTraining(const Flags& flags) {
  TrainingBenchOptions options;
  options.checks = absl::StrSplit(flags.Get("checks"), ',', absl::SkipEmpty());
  options.stop_requested = &StopRequested;
  options.folder = flags.Get("folder");
  if (options.folder.empty()) {
    options.folder = (std::filesystem::temp_directory_path() / absl::StrCat("splitveil-bench-", getpid())).string();
  }
  const absl::StatusOr<std::string> programs = OwnFolder();
  const absl::StatusOr<int64_t> cores = flags.GetInt("cores", 1, 1024), rounds = flags.GetInt("rounds", 1, 1000),
                                steps = flags.GetInt("steps", 1, 1'000'000),
                                cached_rows = flags.GetInt("cached_rows", 1000, 100'000'000);
  for (const absl::Status& status :
       {programs.status(), cores.status(), rounds.status(), steps.status(), cached_rows.status()}) {
    if (!status.ok()) {
      return status;
    }
  }
  options.programs = *programs;
  options.cores = static_cast<int>(*cores);
  options.rounds = static_cast<int>(*rounds);
  options.steps = *steps;
  options.cached_rows = *cached_rows;
  HandleStopSignals();
  return RunTrainingBench(options);
}

}  // namespace

Command BenchTrainingCommand() {
  return {"bench training",
          "Measure split training against one process, its bytes, audit, protection and memory; JSON lines.",
          {{"checks", "", absl::StrCat("Some of ", absl::StrJoin(TrainingCheckNames(), ","), "; all where empty.")},
           {"cores", "2", "Cores that all processes of a run share."},
           {"rounds", "5", "Turns of each side of a ratio; the median counts."},
           {"steps", "200", "Training steps a run, about."},
           {"cached_rows", "200000", "Rows of the memory check."},
           {"folder", "", "Where the runs go, made and removed; in the system's temporary folder where empty."}},
          BenchTraining};
}

}  // namespace splitveil
