#include "deploy/operator/sweep/sweep_command.h"

#include <memory>

#include "deploy/operator/local_run/local_programs.h"
#include "deploy/operator/sweep/sweep.h"

#include "common/status/status_macros.h"

namespace splitveil {
namespace {

absl::StatusOr<ExitCode> Sweep(SweepOptions options) {
  SPLITVEIL_RETURN_IF_ERROR(FindLocalPrograms(options));
  SPLITVEIL_RETURN_IF_ERROR(RunSweep(options));
  return ExitCode::kDone;
}

}  // namespace

void AddSweepCommand(CommandLine& line) {
  const auto options = std::make_shared<SweepOptions>();
  options->jobs = 0;
  CLI::App& command =
      line.AddCommand({"sweep", "Train a grid of protections and seeds, and chart leakage against model quality.",
                       "splitveil sweep --config=sweep.textproto --out=out/sweep", "Many runs on this machine"},
                      [options] { return Sweep(*options); });
  command.add_option("--config", options->config_path, "The grid.")->type_name("FILE")->required();
  command
      .add_option("--out", options->out,
                  "Folder for the runs, sweep.csv and tradeoff.html. Finished runs there are not repeated.")
      ->type_name("DIR")
      ->required();
  command.add_option("--jobs", options->jobs, "Runs at the same time, two processes each; 0 takes half the cores.")
      ->type_name("N")
      ->check(IntegerIn(0, 1024));
  command.add_flag("--dry_run", options->dry_run, "List the runs and which of them are finished; run nothing.");
  command.add_flag("--debit_account", options->debit_account,
                   "Let the runs debit the privacy account that the label party's configuration names.");
}

}  // namespace splitveil
