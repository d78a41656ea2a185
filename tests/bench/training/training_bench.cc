// What two processes cost beside one, and what protection and audit cost, measured on this machine. Each check is one
// benchmark: its counters are what it measured, its label says whether the limits hold.
#include <sched.h>
#include <unistd.h>

#include <benchmark/benchmark.h>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "deploy/operator/local_run/two_party_run.h"

#include "common/process/runtime.h"
#include "tests/bench/training/bench_folder.h"
#include "tests/bench/training/training_checks.h"

namespace splitveil {
namespace {

// This process and those it starts from now on share the first `cores` of those it may use.
bool KeepToCores(int cores) {
  cpu_set_t allowed, kept;
  CPU_ZERO(&kept);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) {
    return false;
  }
  int found = 0;
  for (int core = 0; core < CPU_SETSIZE && found < cores; ++core) {
    if (CPU_ISSET(core, &allowed)) {
      CPU_SET(core, &kept);
      ++found;
    }
  }
  return found == cores && sched_setaffinity(0, sizeof kept, &kept) == 0;
}

// The folder of all checks, made by the first.
absl::StatusOr<BenchFolder*> SharedFolder(std::optional<BenchFolder>& folder) {
  if (!folder.has_value()) {
    const absl::StatusOr<std::string> programs = OwnFolder();
    if (!programs.ok()) {
      return programs.status();
    }
    const std::string path =
        (std::filesystem::temp_directory_path() / absl::StrCat("splitveil-bench-", getpid())).string();
    absl::StatusOr<BenchFolder> made = BenchFolder::Create(path, *programs, &StopRequested);
    if (!made.ok()) {
      return made.status();
    }
    folder.emplace(*std::move(made));
  }
  return &*folder;
}

void RunCheck(benchmark::State& state, const TrainingCheck& check, const TrainingBenchOptions& options,
              std::optional<BenchFolder>& shared) {
  std::vector<CheckOutcome> outcomes;
  for (auto unused : state) {
    const absl::StatusOr<BenchFolder*> folder = SharedFolder(shared);
    const absl::Status done = folder.ok() ? check.run(options, **folder, outcomes) : folder.status();
    if (!done.ok()) {
      state.SkipWithError(std::string(done.message()).c_str());
      break;
    }
  }
  std::string label;
  for (const CheckOutcome& outcome : outcomes) {
    state.counters[outcome.name] = outcome.value;
    for (const auto& [name, value] : outcome.figures) {
      state.counters[outcomes.size() == 1 ? name : absl::StrCat(outcome.name, "/", name)] = value;
    }
    constexpr const char* kSigns[] = {">=", "<=", "<"};
    absl::StrAppend(&label, label.empty() ? "" : "; ", outcome.name, " ", kSigns[static_cast<int>(outcome.limit.side)],
                    " ", outcome.limit.bound, outcome.limit.Holds(outcome.value) ? " holds" : " MISSED");
  }
  state.SetLabel(label);
}

int Main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  TrainingBenchOptions options;
  CLI::App flags("Compares split training with training in one process. --benchmark_filter picks the checks.");
  flags.add_option("--cores", options.cores, "Cores that all processes of a run share.");
  flags.add_option("--rounds", options.rounds, "How often each side of a ratio is measured, alternating.");
  flags.add_option("--steps", options.steps, "Approximate number of training steps per run.");
  flags.add_option("--cached_rows", options.cached_rows, "Rows of the memory check.");
  CLI11_PARSE(flags, argc, argv);
  if (!KeepToCores(options.cores)) {
    std::fprintf(stderr, "--cores: this machine has fewer than %d\n", options.cores);
    return 2;
  }
  HandleStopSignals();
  std::optional<BenchFolder> folder;
  for (const TrainingCheck& check : TrainingChecks()) {
    benchmark::RegisterBenchmark(check.name, [&](benchmark::State& state) { RunCheck(state, check, options, folder); })
        ->Iterations(1)
        ->Unit(benchmark::kSecond)
        ->UseRealTime();
  }
  benchmark::RunSpecifiedBenchmarks();
  return StopRequested() ? 6 : 0;
}

}  // namespace
}  // namespace splitveil

int main(int argc, char** argv) {
  try {
    return splitveil::Main(argc, argv);
  } catch (const std::exception& error) {  // CLI11 and Google Benchmark may throw.
    std::fprintf(stderr, "bench_training: %s\n", error.what());
    return 1;
  }
}
