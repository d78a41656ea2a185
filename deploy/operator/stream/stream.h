// Days of data, one after the other, under several protections: each day is predicted by the model that the day before
// left, and then trained on (Li et al. 2021, section 5.4 and Figure 4).
//
//   DIR/runs/PROTECTION/DAY/  one run: agreement.textproto, PARTY.textproto, PARTY.log, PARTY.out, PARTY.db,
//                             PARTY.checkpoint, result.json
//   DIR/stream.csv            one line per finished day and protection
//   DIR/report.html           the leak report of all runs, day by day
#ifndef SPLITVEIL_DEPLOY_OPERATOR_STREAM_STREAM_H_
#define SPLITVEIL_DEPLOY_OPERATOR_STREAM_STREAM_H_

#include "absl/status/status.h"
#include "deploy/operator/local_run/local_programs.h"

namespace splitveil {

// The configuration is a splitveil.v1.StreamConfig; jobs are protections.
//
// Runs what is not finished yet and writes the table and the report of all that is, also where a run failed. A day is
// finished where its result.json is there, of this configuration, these data and those of the days before, and the days
// before are; a day that fails ends its protection's. A line for each run goes to standard error as it ends, a table of
// all to standard output, then the paths. Errors: InvalidArgument and NotFound before any run starts; Internal at the
// end where runs failed, each named on standard error, or where stop was requested.
absl::Status RunStream(const LocalRunsOptions& options);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_STREAM_STREAM_H_
