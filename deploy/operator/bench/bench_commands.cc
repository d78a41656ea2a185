#include "deploy/operator/bench/bench_commands.h"

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "deploy/operator/bench/alignment_bench.h"
#include "deploy/operator/bench/marvell_bench.h"
#include "deploy/operator/bench/training_bench.h"
#include "deploy/operator/local_run/local_programs.h"

#include "common/process/runtime.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

constexpr char kGroup[] = "Benchmarks of this machine, one JSON object per line";

struct MarvellBenchFlags {
  int64_t instances = 100000;
  std::string problems;
};

struct TrainingBenchFlags {
  std::string checks;  // Comma-separated.
  TrainingBenchOptions options;
};

absl::StatusOr<ExitCode> BenchTraining(const TrainingBenchFlags& flags) {
  TrainingBenchOptions options = flags.options;
  options.checks = absl::StrSplit(flags.checks, ',', absl::SkipEmpty());
  options.stop_requested = &StopRequested;
  if (options.folder.empty()) {
    options.folder = (std::filesystem::temp_directory_path() / absl::StrCat("splitveil-bench-", getpid())).string();
  }
  SPLITVEIL_ASSIGN_OR_RETURN(options.programs, OwnFolder());
  HandleStopSignals();
  SPLITVEIL_RETURN_IF_ERROR(RunTrainingBench(options));
  return ExitCode::kDone;
}

}  // namespace

void AddBenchAlignmentCommand(CommandLine& line) {
  const auto ids = std::make_shared<int64_t>(20000);
  CLI::App& command = line.AddCommand({"bench alignment", "Time the private set intersection of two parties' ids.",
                                       "splitveil bench alignment --ids=100000", kGroup},
                                      [ids]() -> absl::StatusOr<ExitCode> {
                                        SPLITVEIL_RETURN_IF_ERROR(RunAlignmentBench(*ids));
                                        return ExitCode::kDone;
                                      });
  command.add_option("--ids", *ids, "Ids of each party, nine tenths of them in common.")
      ->type_name("N")
      ->check(IntegerIn(10, 100'000'000));
}

void AddBenchMarvellCommand(CommandLine& line) {
  const auto flags = std::make_shared<MarvellBenchFlags>();
  CLI::App& command = line.AddCommand(
      {"bench marvell", "Time Marvell's solver, and compare protecting a batch with merely drawing its noise.",
       "splitveil bench marvell --instances=10000", kGroup},
      [flags]() -> absl::StatusOr<ExitCode> {
        SPLITVEIL_RETURN_IF_ERROR(RunMarvellBench(flags->instances, flags->problems));
        return ExitCode::kDone;
      });
  command.add_option("--instances", flags->instances, "Random problems to solve.")
      ->type_name("N")
      ->check(IntegerIn(1, 100'000'000));
  command.add_option("--problems", flags->problems, "Solve the rows d,u,v,g,p,P of this CSV table instead.")
      ->type_name("FILE");
}

void AddBenchTrainingCommand(CommandLine& line) {
  const auto flags = std::make_shared<TrainingBenchFlags>();
  CLI::App& command =
      line.AddCommand({"bench training", "Compare split training with training in one process: speed, bytes, memory.",
                       "splitveil bench training --checks=bytes,shares --rounds=3", kGroup},
                      [flags] { return BenchTraining(*flags); });
  command
      .add_option("--checks", flags->checks, absl::StrCat("Some of ", absl::StrJoin(TrainingCheckNames(), ", "), "."))
      ->type_name("NAME,...")
      ->default_str("all");
  command.add_option("--cores", flags->options.cores, "Cores that all processes of a run share.")
      ->type_name("N")
      ->check(IntegerIn(1, 1024));
  command
      .add_option("--rounds", flags->options.rounds,
                  "How often each side of a ratio is measured, alternating; the median is reported.")
      ->type_name("N")
      ->check(IntegerIn(1, 1000));
  command.add_option("--steps", flags->options.steps, "Approximate number of training steps per run.")
      ->type_name("N")
      ->check(IntegerIn(1, 1'000'000));
  command.add_option("--cached_rows", flags->options.cached_rows, "Rows of the memory check.")
      ->type_name("N")
      ->check(IntegerIn(1000, 100'000'000));
  command.add_option("--folder", flags->options.folder, "Folder for the runs, made and removed.")
      ->type_name("DIR")
      ->default_str("a temporary one");
}

}  // namespace splitveil
