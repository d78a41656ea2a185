#include "deploy/operator/sweep/sweep.h"

#include "deploy/operator/command.h"
#include "deploy/operator/local_run/local_programs.h"

#include "common/status/status_macros.h"

namespace splitveil {
namespace {

absl::Status Sweep(const Flags& flags) {
  SweepOptions options;
  options.dry_run = flags.GetSwitch("dry_run");
  SPLITVEIL_RETURN_IF_ERROR(ReadLocalRuns(flags, options));
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
