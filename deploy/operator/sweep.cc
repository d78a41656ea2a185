#include "deploy/sweep/sweep.h"

#include <string>

#include "deploy/operator/command.h"
#include "deploy/operator/local_programs.h"

#include "common/process/runtime.h"

namespace splitveil {
namespace {

absl::Status Sweep(const Flags& flags) {
  SweepOptions options;
  options.config_path = flags.Get("config");
  options.out = flags.Get("out");
  options.dry_run = flags.GetSwitch("dry_run");
  options.stop_requested = &StopRequested;
  const absl::StatusOr<int> jobs = JobsOf(flags);
  const absl::StatusOr<std::string> programs = OwnFolder();
  if (!jobs.ok() || !programs.ok()) {
    return jobs.ok() ? programs.status() : jobs.status();
  }
  options.jobs = *jobs;
  options.programs = *programs;
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
