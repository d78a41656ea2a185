#include "deploy/stream/stream.h"

#include <string>

#include "deploy/operator/command.h"
#include "deploy/operator/local_programs.h"

#include "common/process/runtime.h"

namespace splitveil {
namespace {

absl::Status Stream(const Flags& flags) {
  StreamOptions options;
  options.config_path = flags.Get("config");
  options.out = flags.Get("out");
  options.stop_requested = &StopRequested;
  const absl::StatusOr<int> jobs = JobsOf(flags);
  const absl::StatusOr<std::string> programs = OwnFolder();
  if (!jobs.ok() || !programs.ok()) {
    return jobs.ok() ? programs.status() : jobs.status();
  }
  options.jobs = *jobs;
  options.programs = *programs;
  HandleStopSignals();
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
