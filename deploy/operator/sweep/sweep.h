// A grid of protections and seeds, run for real: both parties' programs, once for each cell.
//
//   DIR/runs/NAME/     one run: agreement.textproto, PARTY.textproto, PARTY.log, PARTY.out, PARTY.db, result.json
//   DIR/sweep.csv      one line per finished run
//   DIR/tradeoff.html  what leaks against model quality
#ifndef SPLITVEIL_DEPLOY_OPERATOR_SWEEP_SWEEP_H_
#define SPLITVEIL_DEPLOY_OPERATOR_SWEEP_SWEEP_H_

#include "absl/status/status.h"
#include "deploy/operator/local_run/local_programs.h"

namespace splitveil {

// The configuration is a splitveil.v1.SweepConfig.
struct SweepOptions : LocalRunsOptions {
  bool dry_run = false;  // Print the runs and what is there already; run and write nothing.
  // Whether the runs may count in the privacy account of the configuration what it does not have yet (sweep_debit.h).
  bool debit_account = false;
};

// Runs what is not finished yet and writes the table and the page of all that is, also where a run failed. A run is
// finished where its result.json is there and of this configuration and these data; what an interrupted or failed run
// left is thrown away and the run repeated. A line for each run goes to standard error as it ends, a table of all to
// standard output. What the runs will count in a privacy account that outlives the sweep is said on standard error
// before they start, and refused where it is anything and the options do not allow it: a trial must not use up what the
// labels may disclose unless somebody wants it to. Errors: InvalidArgument and NotFound before any run starts; Internal
// at the end where runs failed, each named on standard error, or where stop was requested.
absl::Status RunSweep(const SweepOptions& options);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_SWEEP_SWEEP_H_
