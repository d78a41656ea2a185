#include "deploy/operator/stream/stream.h"

#include "deploy/operator/command.h"
#include "deploy/operator/local_run/local_programs.h"

#include "common/status/status_macros.h"

namespace splitveil {
namespace {

absl::Status Stream(const Flags& flags) {
  LocalRunsOptions options;
  SPLITVEIL_RETURN_IF_ERROR(ReadLocalRuns(flags, options));
  return RunStream(options);
}

}  // namespace

Command StreamCommand() {
  return {
      "stream",
      "Train day by day, each day predicted first, under several protections; a report of leak and quality by day.",
      {{"config", "", "The days and protections (stream.textproto).", /*required=*/true},
       {"out", "", "Folder of the runs, stream.csv and report.html; what is finished there stays.", /*required=*/true},
       {"jobs", "0", "Protections at a time; 0: half the cores, for each is two processes."}},
      Stream};
}

}  // namespace splitveil
