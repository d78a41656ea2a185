#include "deploy/operator/bench/training_checks.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "deploy/operator/bench/bench_runs.h"
#include "deploy/operator/bench/check_line.h"

#include "common/status/status_macros.h"

namespace splitveil {
namespace {

using Json = nlohmann::ordered_json;
using Side = CheckLimit::Side;

constexpr int64_t kRows = 64'000;
constexpr int kLargeBatch = 32'768;
constexpr double kTestFraction = 0.1;  // That of `splitveil prepare`.
constexpr double kBound = 0.7;         // On the AUC of a run with gaussian_label_dp.
constexpr int64_t kIsicSide = 84;
constexpr int64_t kIsicRows = 720;  // Five batches to train on.

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

double Mean(const std::vector<double>& values) {
  double sum = 0;
  for (double value : values) {
    sum += value;
  }
  return sum / static_cast<double>(values.size());
}

// As many epochs as about `steps` steps take.
void SetSteps(int64_t steps, int64_t rows, LocalRun& run) {
  const double a_batch = static_cast<double>(run.agreement.batch_size());
  const double an_epoch = std::max(1.0, static_cast<double>(rows) * (1 - kTestFraction) / a_batch);
  run.agreement.set_epochs(static_cast<int>(std::ceil(static_cast<double>(steps) / an_epoch)));
}

void SetThreads(int threads, LocalRun& run) {
  run.label_config.mutable_party()->set_compute_threads(threads);
  run.nonlabel_config.mutable_party()->set_compute_threads(threads);
}

absl::StatusOr<LocalRun> WideAndDeep(const TrainingBenchOptions& options, BenchFolder& folder) {
  SPLITVEIL_ASSIGN_OR_RETURN(LocalRun run, folder.WideAndDeep(kRows));
  SetSteps(options.steps, kRows, run);
  return run;
}

Json Milliseconds(const StepRow& step, const StepTimeRow& times) {
  Json phases = {{"step", 1000 * step.seconds}};
  for (size_t i = 0; i < kStepPhases.size(); ++i) {
    phases[kStepPhaseNames[i]] = 1000 * times.*kStepPhases[i];
  }
  return phases;
}

// Runs in turns with one process, on all cores and, since that is not always faster, on one thread. `ratios`: examples
// a second of each turn, over those of the faster of the two in the same turn.
struct Turns {
  std::vector<double> one_thread, all_cores;
  std::vector<std::vector<double>> split, ratios;  // By run.
  std::vector<BenchRun> last;
};

absl::StatusOr<Turns> TakeTurns(const std::vector<LocalRun>& runs, const TrainingBenchOptions& options,
                                BenchFolder& folder) {
  Turns turns;
  turns.split.resize(runs.size());
  turns.ratios.resize(runs.size());
  turns.last.resize(runs.size());
  for (int round = 0; round < options.rounds; ++round) {
    double centralized_baseline = 0;
    for (const auto& [threads, speeds] :
         {std::pair(1, &turns.one_thread), std::pair(options.cores, &turns.all_cores)}) {
      SPLITVEIL_ASSIGN_OR_RETURN(const BenchRun one, RunCentralizedBaseline(runs.front(), threads, folder));
      speeds->push_back(one.examples_per_second);
      centralized_baseline = std::max(centralized_baseline, one.examples_per_second);
    }
    for (size_t i = 0; i < runs.size(); ++i) {
      SPLITVEIL_ASSIGN_OR_RETURN(const BenchRun split, RunSplit(runs[i], folder));
      turns.split[i].push_back(split.examples_per_second);
      turns.ratios[i].push_back(split.examples_per_second / centralized_baseline);
      turns.last[i] = split;
    }
  }
  return turns;
}

std::string RatioLine(const std::string& name, const LocalRun& run, const Turns& turns, size_t i, double at_least,
                      const TrainingBenchOptions& options) {
  return CheckLine(
      name, Median(turns.ratios[i]), "examples per second, over those of one process", {Side::kAtLeast, at_least},
      {{"batch_size", run.agreement.batch_size()},
       {"in_flight_batches", run.agreement.in_flight_batches()},
       {"cores", options.cores},
       {"threads_per_party", run.label_config.party().compute_threads()},
       {"split_examples_per_second", turns.split[i]},
       {"one_thread_examples_per_second", turns.one_thread},
       {"all_cores_examples_per_second", turns.all_cores},
       {"ratios", turns.ratios[i]},
       {"label_party_milliseconds", Milliseconds(turns.last[i].label_step, turns.last[i].label_times)},
       {"nonlabel_party_milliseconds", Milliseconds(turns.last[i].nonlabel_step, turns.last[i].nonlabel_times)}});
}

absl::Status CheckCentralizedBaseline(const TrainingBenchOptions& options, BenchFolder& folder,
                                      std::vector<std::string>& lines) {
  SPLITVEIL_ASSIGN_OR_RETURN(LocalRun one, WideAndDeep(options, folder));
  LocalRun two = one;
  two.agreement.set_in_flight_batches(2);
  SPLITVEIL_ASSIGN_OR_RETURN(const Turns turns, TakeTurns({one, two}, options, folder));
  lines.push_back(RatioLine("one_in_flight", one, turns, 0, 0.9, options));
  lines.push_back(RatioLine("two_in_flight", two, turns, 1, 1.1, options));
  return absl::OkStatus();
}

absl::Status CheckLargeBatch(const TrainingBenchOptions& options, BenchFolder& folder,
                             std::vector<std::string>& lines) {
  SPLITVEIL_ASSIGN_OR_RETURN(LocalRun run, folder.WideAndDeep(kRows));
  run.agreement.set_batch_size(kLargeBatch);
  SetSteps(std::max<int64_t>(1, options.steps / 16), kRows, run);
  SPLITVEIL_ASSIGN_OR_RETURN(const Turns turns, TakeTurns({run}, options, folder));
  lines.push_back(RatioLine("large_batch", run, turns, 0, 0.9, options));
  return absl::OkStatus();
}

absl::Status CheckIsic(const TrainingBenchOptions& options, BenchFolder& folder, std::vector<std::string>& lines) {
  SPLITVEIL_ASSIGN_OR_RETURN(LocalRun run, folder.Isic(kIsicRows, kIsicSide));
  SetSteps(std::max<int64_t>(1, options.steps / 8), kIsicRows, run);
  SetThreads(options.cores, run);
  SPLITVEIL_ASSIGN_OR_RETURN(const Turns turns, TakeTurns({run}, options, folder));
  lines.push_back(RatioLine("isic", run, turns, 0, 0.95, options));
  return absl::OkStatus();
}

absl::Status CheckVocabulary(const TrainingBenchOptions& options, BenchFolder& folder,
                             std::vector<std::string>& lines) {
  std::vector<LocalRun> runs;
  for (int64_t embedding_rows : {1'000'000, 10'000'000}) {
    SPLITVEIL_ASSIGN_OR_RETURN(LocalRun run, folder.WideAndDeepOfVocabulary(kRows, embedding_rows));
    SetSteps(options.steps, kRows, run);
    runs.push_back(std::move(run));
  }
  std::vector<double> million, ten_million, ratios;
  for (int round = 0; round < options.rounds; ++round) {
    std::vector<double> milliseconds;
    for (const LocalRun& run : runs) {
      SPLITVEIL_ASSIGN_OR_RETURN(const BenchRun measured, RunSplit(run, folder));
      milliseconds.push_back(measured.step_milliseconds);
    }
    million.push_back(milliseconds[0]);
    ten_million.push_back(milliseconds[1]);
    ratios.push_back(milliseconds[1] / milliseconds[0]);
  }
  const Json measured = {{"batch_size", runs.front().agreement.batch_size()},
                         {"threads_per_party", 1},
                         {"milliseconds_of_1_million", million},
                         {"milliseconds_of_10_million", ten_million}};
  lines.push_back(CheckLine("vocabulary_of_a_million", Median(million), "milliseconds per whole update",
                            {Side::kBelow, 15}, measured));
  lines.push_back(CheckLine("vocabulary_ten_times", Median(ratios),
                            "update with 10 million embedding rows, over 1 million", {Side::kBelow, 1.1}, measured));
  return absl::OkStatus();
}

absl::Status CheckBytes(const TrainingBenchOptions& options, BenchFolder& folder, std::vector<std::string>& lines) {
  SPLITVEIL_ASSIGN_OR_RETURN(LocalRun full, WideAndDeep(options, folder));
  LocalRun half = full;
  half.agreement.set_wire_dtype(v1::BFLOAT16);
  std::vector<double> full_auc, half_auc;
  double full_bytes = 0, half_bytes = 0;
  for (int round = 0; round < options.rounds; ++round) {
    for (auto& [run, aucs, bytes] : {std::tie(full, full_auc, full_bytes), std::tie(half, half_auc, half_bytes)}) {
      SPLITVEIL_ASSIGN_OR_RETURN(const BenchRun measured, RunSplit(run, folder));
      aucs.push_back(measured.test_auc);
      bytes = measured.bytes_per_step;
    }
  }
  const double payload = 2.0 * full.agreement.batch_size() * full.agreement.cut_width();
  lines.push_back(CheckLine("float32_bytes", full_bytes / (4 * payload) - 1, "bytes per step beyond 2 B d 4, share",
                            {Side::kAtMost, 0.01}, {{"bytes_per_step", full_bytes}, {"payload", 4 * payload}}));
  lines.push_back(CheckLine("bfloat16_bytes", half_bytes / (2 * payload) - 1, "bytes per step beyond 2 B d 2, share",
                            {Side::kAtMost, 0.01}, {{"bytes_per_step", half_bytes}, {"payload", 2 * payload}}));
  lines.push_back(CheckLine(
      "bfloat16_test_auc", std::abs(Mean(half_auc) - Mean(full_auc)), "test AUC, difference of means",
      {Side::kAtMost, 0.002},
      {{"epochs", full.agreement.epochs()}, {"float32_test_auc", full_auc}, {"bfloat16_test_auc", half_auc}}));
  return absl::OkStatus();
}

absl::Status CheckShares(const TrainingBenchOptions& options, BenchFolder& folder, std::vector<std::string>& lines) {
  SPLITVEIL_ASSIGN_OR_RETURN(LocalRun run, WideAndDeep(options, folder));
  run.label_config.mutable_protection()->mutable_marvell()->set_s(4);
  v1::LabelSideAudit& own = *run.label_config.mutable_label_side_audit();
  own.Clear();
  v1::AuditAgreement& agreed = *run.agreement.mutable_audit();
  agreed.add_layers("cut");
  agreed.set_disclosure(v1::ORACLE);
  for (v1::Attack attack : {v1::NORM, v1::COSINE}) {
    own.add_attacks(attack);
    agreed.add_attacks(attack);
  }
  own.add_attacks(v1::LIKELIHOOD_RATIO);
  SPLITVEIL_ASSIGN_OR_RETURN(const BenchRun measured, RunSplit(run, folder));
  const Json label = Milliseconds(measured.label_step, measured.label_times);
  const Json nonlabel = Milliseconds(measured.nonlabel_step, measured.nonlabel_times);
  lines.push_back(CheckLine("marvell_share", measured.label_times.protection / measured.label_step.seconds,
                            "share of the label party's step", {Side::kAtMost, 0.05},
                            {{"s", 4}, {"label_party_milliseconds", label}}));
  const double label_share = measured.label_times.attacks / measured.label_step.seconds;
  const double nonlabel_share = measured.nonlabel_times.attacks / measured.nonlabel_step.seconds;
  lines.push_back(CheckLine("attacks_share", std::max(label_share, nonlabel_share),
                            "share of the step, at the party where it is larger", {Side::kAtMost, 0.1},
                            {{"label_party_attacks", "norm, cosine, likelihood_ratio"},
                             {"nonlabel_party_attacks", "norm, cosine"},
                             {"label_party_share", label_share},
                             {"nonlabel_party_share", nonlabel_share},
                             {"label_party_milliseconds", label},
                             {"nonlabel_party_milliseconds", nonlabel}}));
  return absl::OkStatus();
}

// `run` with noised labels. In the folder of the run, as all that it writes: no run of the benchmark knows of another.
LocalRun WithNoisedLabels(LocalRun run, bool release_head_predicts) {
  auto& config = *run.label_config.mutable_protection()->mutable_gaussian_label_dp();
  config.set_max_run_auc_bound(kBound);
  config.set_release_head_predicts(release_head_predicts);
  run.label_config.mutable_privacy_account()->set_path("privacy_account.db");
  run.label_config.mutable_privacy_account()->set_label_set("benchmark");
  return run;
}

// The head that computes what leaves, with another one beside it that predicts or without, against no protection. Turn
// by turn.
absl::Status CheckReleaseHead(const TrainingBenchOptions& options, BenchFolder& folder,
                              std::vector<std::string>& lines) {
  SPLITVEIL_ASSIGN_OR_RETURN(LocalRun none, WideAndDeep(options, folder));
  none.agreement.set_in_flight_batches(1);
  struct Measured {
    const char* name;
    const char* unit;
    LocalRun run;
    std::vector<double> speeds = {}, ratios = {};
    BenchRun latest = {};
  };
  std::vector<Measured> measured = {
      {"gaussian_label_dp", "examples per second with two heads, over those without protection",
       WithNoisedLabels(none, /*release_head_predicts=*/false)},
      {"gaussian_label_dp_one_head", "examples per second with one head, over those without protection",
       WithNoisedLabels(none, /*release_head_predicts=*/true)}};
  std::vector<double> of_none;
  BenchRun unprotected;
  for (int round = 0; round < options.rounds; ++round) {
    SPLITVEIL_ASSIGN_OR_RETURN(unprotected, RunSplit(none, folder));
    of_none.push_back(unprotected.examples_per_second);
    for (Measured& of : measured) {
      SPLITVEIL_ASSIGN_OR_RETURN(of.latest, RunSplit(of.run, folder));
      of.speeds.push_back(of.latest.examples_per_second);
      of.ratios.push_back(of.latest.examples_per_second / unprotected.examples_per_second);
    }
  }
  for (const Measured& of : measured) {
    lines.push_back(CheckLine(
        of.name, Median(of.ratios), of.unit, {Side::kAtLeast, 0.85},
        {{"batch_size", none.agreement.batch_size()},
         {"in_flight_batches", none.agreement.in_flight_batches()},
         {"cores", options.cores},
         {"threads_per_party", none.label_config.party().compute_threads()},
         {"none_examples_per_second", of_none},
         {"gaussian_label_dp_examples_per_second", of.speeds},
         {"ratios", of.ratios},
         {"none_label_party_milliseconds", Milliseconds(unprotected.label_step, unprotected.label_times)},
         {"label_party_milliseconds", Milliseconds(of.latest.label_step, of.latest.label_times)},
         {"none_nonlabel_party_milliseconds", Milliseconds(unprotected.nonlabel_step, unprotected.nonlabel_times)},
         {"nonlabel_party_milliseconds", Milliseconds(of.latest.nonlabel_step, of.latest.nonlabel_times)}}));
  }
  return absl::OkStatus();
}

absl::Status CheckMemory(const TrainingBenchOptions& options, BenchFolder& folder, std::vector<std::string>& lines) {
  SPLITVEIL_ASSIGN_OR_RETURN(LocalRun run, folder.WideAndDeep(options.cached_rows));
  int64_t peak = 0;
  SPLITVEIL_RETURN_IF_ERROR(RunSplitForMemory(run, folder, peak).status());
  const double gibibytes = static_cast<double>(peak) / (int64_t{1} << 30);
  lines.push_back(CheckLine("memory", gibibytes, "GiB resident at the non-label party, at most, parameters included",
                            {Side::kBelow, 1.5}, {{"rows", options.cached_rows}}));
  return absl::OkStatus();
}

}  // namespace

const std::vector<TrainingCheck>& TrainingChecks() {
  static const auto* const checks = new std::vector<TrainingCheck>{
      {"centralized_baseline", CheckCentralizedBaseline},
      {"large_batch", CheckLargeBatch},
      {"isic", CheckIsic},
      {"vocabulary", CheckVocabulary},
      {"bytes", CheckBytes},
      {"shares", CheckShares},
      {"gaussian_label_dp", CheckReleaseHead},
      {"memory", CheckMemory},
  };
  return *checks;
}

}  // namespace splitveil
