#include "deploy/operator/bench/training_bench.h"

#include <sched.h>

#include <algorithm>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "deploy/operator/bench/bench_folder.h"
#include "deploy/operator/bench/training_checks.h"

#include "common/status/status_macros.h"

namespace splitveil {
namespace {

// This process and those it starts from now on share the first `cores` of those it may use.
absl::Status KeepToCores(int cores) {
  cpu_set_t allowed, kept;
  CPU_ZERO(&kept);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) {
    return absl::InternalError("the cores of this process cannot be read");
  }
  int found = 0;
  for (int core = 0; core < CPU_SETSIZE && found < cores; ++core) {
    if (CPU_ISSET(core, &allowed)) {
      CPU_SET(core, &kept);
      ++found;
    }
  }
  if (found < cores) {
    return absl::InvalidArgumentError(
        absl::StrCat("cores: expected at most those of this machine, ", found, ", found ", cores));
  }
  return sched_setaffinity(0, sizeof kept, &kept) == 0 ? absl::OkStatus()
                                                       : absl::InternalError("the cores cannot be set");
}

bool Wanted(const TrainingBenchOptions& options, const std::string& name) {
  return options.checks.empty() ||
         std::find(options.checks.begin(), options.checks.end(), name) != options.checks.end();
}

}  // namespace

std::vector<std::string> TrainingCheckNames() {
  std::vector<std::string> names;
  for (const TrainingCheck& check : TrainingChecks()) {
    names.push_back(check.name);
  }
  return names;
}

absl::Status RunTrainingBench(const TrainingBenchOptions& options) {
  const std::vector<std::string> names = TrainingCheckNames();
  for (const std::string& check : options.checks) {
    if (std::find(names.begin(), names.end(), check) == names.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("checks: expected some of ", absl::StrJoin(names, ","), ", found \"", check, "\""));
    }
  }
  SPLITVEIL_RETURN_IF_ERROR(KeepToCores(options.cores));
  SPLITVEIL_ASSIGN_OR_RETURN(BenchFolder folder,
                             BenchFolder::Create(options.folder, options.programs, options.stop_requested));
  for (const TrainingCheck& check : TrainingChecks()) {
    if (!Wanted(options, check.name)) {
      continue;
    }
    std::vector<std::string> lines;
    SPLITVEIL_RETURN_IF_ERROR(check.run(options, folder, lines));
    for (const std::string& line : lines) {
      std::printf("%s\n", line.c_str());
    }
    std::fflush(stdout);
  }
  return absl::OkStatus();
}

}  // namespace splitveil
