// The model of a split run, trained in one process: the quality and the speed that split training is held to.
#include <algorithm>
#include <iostream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "deploy/operator/centralized_baseline/centralized_baseline.h"
#include "deploy/operator/local_run/local_run.h"

#include "common/model/compute_threads.h"
#include "common/model/tensor_memory.h"
#include "common/process/exit_code.h"
#include "common/process/flags.h"
#include "common/process/runtime.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

constexpr char kProgram[] = "centralized_baseline";
constexpr int64_t kConfiguredSeeds = -1;
constexpr int64_t kMaxSeed = 1'000'000'000'000'000;  // As a sweep's.

absl::Status Run(const Flags& flags) {
  const absl::StatusOr<int64_t> threads = flags.GetInt("threads", 0, 1024);
  const absl::StatusOr<int64_t> seed = flags.GetInt("seed", kConfiguredSeeds, kMaxSeed);
  if (!threads.ok() || !seed.ok()) {
    return threads.ok() ? seed.status() : threads.status();
  }
  SPLITVEIL_ASSIGN_OR_RETURN(
      CentralizedBaselineConfig config,
      LoadOneProcessConfig(flags.Get("agreement"), flags.Get("label_config"), flags.Get("nonlabel_config")));
  if (*seed != kConfiguredSeeds) {
    SetSeeds(static_cast<uint64_t>(*seed), config.label_config, config.nonlabel_config);
  }
  const int used = *threads > 0 ? static_cast<int>(*threads) : std::max(1u, std::thread::hardware_concurrency());
  ReuseTensorMemory();
  SetComputeThreads(used);
  SPLITVEIL_ASSIGN_OR_RETURN(const JoinedData data, OpenJoinedData(config));
  SPLITVEIL_ASSIGN_OR_RETURN(const CentralizedBaselineResult result, TrainInOneProcess(config, data, &StopRequested));
  std::cout << "RESULT " << CentralizedBaselineResultJson(result, used) << std::endl;
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  TuneRuntime(argv);
  const std::vector<FlagSpec> specs = {
      {"agreement", "", "The run agreement (run.textproto).", /*required=*/true},
      {"label_config", "", "The label party's configuration.", /*required=*/true},
      {"nonlabel_config", "", "The non-label party's configuration.", /*required=*/true},
      {"threads", "0", "Threads to compute on; 0: one for each core."},
      {"seed", "-1", "The sweep's seed whose initial weights to start from; -1: the seeds of the configurations."},
      {"help", "", "Print this text.", /*required=*/false, /*is_switch=*/true}};
  const absl::StatusOr<Flags> flags = Flags::Parse(argc, argv, 1, specs);
  if (!flags.ok()) {
    return Exit(kProgram, flags.status());
  }
  if (flags->GetSwitch("help")) {
    std::cout << Flags::Help("centralized_baseline --agreement=FILE --label_config=FILE --nonlabel_config=FILE", specs);
    return 0;
  }
  WarnIfSlowBlas();
  HandleStopSignals();
  return Exit(kProgram, Run(*flags));
}

}  // namespace
}  // namespace splitveil

int main(int argc, char** argv) { return splitveil::Main(argc, argv); }
