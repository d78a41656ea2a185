// The model of a split run, trained in one process: the quality and the speed that split training is held to.
#include <algorithm>
#include <iostream>
#include <optional>
#include <string>
#include <thread>

#include "deploy/operator/local_run/local_run.h"

#include "common/command_line/command_line.h"
#include "common/matrix/matrix.h"
#include "common/model/torch_settings.h"
#include "common/process/runtime.h"
#include "common/process/tune_runtime.h"
#include "common/status/status_macros.h"
#include "tests/bench/centralized_baseline/centralized_baseline.h"

namespace splitveil {
namespace {

constexpr int64_t kMaxSeed = 1'000'000'000'000'000;  // As a sweep's.

struct BaselineFlags {
  std::string agreement, label_config, nonlabel_config;
  int threads = 0;
  std::optional<int64_t> seed;
};

absl::StatusOr<ExitCode> Run(const BaselineFlags& flags) {
  WarnIfSlowBlas();
  HandleStopSignals();
  SPLITVEIL_ASSIGN_OR_RETURN(CentralizedBaselineConfig config,
                             LoadCentralizedBaselineConfig(flags.agreement, flags.label_config, flags.nonlabel_config));
  if (flags.seed.has_value()) {
    SetSeeds(static_cast<uint64_t>(*flags.seed), config.label_config, config.nonlabel_config);
  }
  const int threads =
      flags.threads > 0 ? flags.threads : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  ReuseTensorMemory();
  SetComputeThreads(threads);
  SPLITVEIL_ASSIGN_OR_RETURN(const JoinedData data, OpenJoinedData(config));
  SPLITVEIL_ASSIGN_OR_RETURN(const CentralizedBaselineResult result,
                             TrainCentralizedBaseline(config, data, &StopRequested));
  std::cout << "RESULT " << CentralizedBaselineResultJson(result, threads) << std::endl;
  return ExitCode::kDone;
}

int Main(int argc, char** argv) {
  TuneRuntime();
  BaselineFlags flags;
  CommandLine line(
      {"centralized_baseline", "Trains the model of a split run in one process, on both parties' data, unprotected.",
       "centralized_baseline --agreement=run.textproto --label_config=label_party.textproto "
       "--nonlabel_config=nonlabel_party.textproto"},
      [&flags] { return Run(flags); });
  CLI::App& app = line.program();
  app.add_option("--agreement", flags.agreement, "The run agreement.")->type_name("FILE")->required();
  app.add_option("--label_config", flags.label_config, "The label party's configuration.")
      ->type_name("FILE")
      ->required();
  app.add_option("--nonlabel_config", flags.nonlabel_config, "The non-label party's configuration.")
      ->type_name("FILE")
      ->required();
  app.add_option("--threads", flags.threads, "Threads to compute on; 0 takes one per core.")
      ->type_name("N")
      ->check(IntegerIn(0, 1024));
  app.add_option("--seed", flags.seed, "Start from the weights of a sweep's runs with this seed.")
      ->type_name("N")
      ->default_str("the configurations' seeds")
      ->check(IntegerIn(0, kMaxSeed));
  return line.Main(argc, argv);
}

}  // namespace
}  // namespace splitveil

int main(int argc, char** argv) { return splitveil::Main(argc, argv); }
