#include "deploy/sweep/sweep.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <system_error>
#include <thread>

#include "deploy/operator/command.h"

#include "common/process/runtime.h"

namespace splitveil {
namespace {

// Each run is two processes.
int64_t DefaultJobs() { return std::max(1u, std::thread::hardware_concurrency() / 2); }

absl::Status Sweep(const Flags& flags) {
  SweepOptions options;
  options.config_path = flags.Get("config");
  options.out = flags.Get("out");
  options.dry_run = flags.GetSwitch("dry_run");
  options.stop_requested = &StopRequested;
  const absl::StatusOr<int64_t> jobs = flags.GetInt("jobs", 0, 1024);
  if (!jobs.ok()) {
    return jobs.status();
  }
  options.jobs = static_cast<int>(*jobs > 0 ? *jobs : DefaultJobs());
  std::error_code error;
  options.programs = std::filesystem::read_symlink("/proc/self/exe", error).parent_path().string();
  if (error) {
    return absl::InternalError("/proc/self/exe: cannot be read: " + error.message());
  }
  HandleStopSignals();
  return RunSweep(options);
}

}  // namespace

Command SweepCommand() {
  return {
      "sweep",
      "Run both parties over a grid of protections and seeds; a page of leak against quality.",
      {{"config", "", "The grid (sweep.textproto).", /*required=*/true},
       {"out", "", "Folder of the runs, sweep.csv and tradeoff.html; what is finished there stays.", /*required=*/true},
       {"jobs", "0", "Runs at a time; 0: half the cores, for each is two processes."},
       {"dry_run", "", "Print the runs and which are done; run nothing.", /*required=*/false, /*is_switch=*/true}},
      Sweep};
}

}  // namespace splitveil
