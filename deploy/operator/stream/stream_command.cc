#include "deploy/operator/stream/stream_command.h"

#include <memory>

#include "deploy/operator/local_run/local_programs.h"
#include "deploy/operator/stream/stream.h"

#include "common/status/status_macros.h"

namespace splitveil {
namespace {

absl::StatusOr<ExitCode> Stream(LocalRunsOptions options) {
  SPLITVEIL_RETURN_IF_ERROR(FindLocalPrograms(options));
  SPLITVEIL_RETURN_IF_ERROR(RunStream(options));
  return ExitCode::kDone;
}

}  // namespace

void AddStreamCommand(CommandLine& line) {
  const auto options = std::make_shared<LocalRunsOptions>();
  options->jobs = 0;
  CLI::App& command = line.AddCommand(
      {"stream", "Train day after day under several protections, and chart leakage and model quality by day.",
       "splitveil stream --config=stream.textproto --out=out/stream", "Many runs on this machine"},
      [options] { return Stream(*options); });
  command.add_option("--config", options->config_path, "The days and the protections.")->type_name("FILE")->required();
  command
      .add_option("--out", options->out,
                  "Folder for the runs, stream.csv and report.html. Finished runs there are not repeated.")
      ->type_name("DIR")
      ->required();
  command
      .add_option("--jobs", options->jobs,
                  "Protections trained at the same time, two processes each; 0 takes half the cores.")
      ->type_name("N")
      ->check(IntegerIn(0, 1024));
}

}  // namespace splitveil
