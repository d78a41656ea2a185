#include "tests/bench/training/training_checks.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "common/status/status_macros.h"
#include "tests/bench/training/bench_runs.h"

namespace splitveil {
namespace {

using Figures = std::map<std::string, double>;
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

// `figures` and, under PARTY_PHASE_ms, where the time of a step of `party` goes.
void AddMilliseconds(const std::string& party, const StepRow& step, const StepTimeRow& times, Figures& figures) {
  figures[party + "_step_ms"] = 1000 * step.seconds;
  for (size_t i = 0; i < kStepPhases.size(); ++i) {
    figures[party + "_" + kStepPhaseNames[i] + "_ms"] = 1000 * times.*kStepPhases[i];
  }
}

void AddMilliseconds(const BenchRun& run, Figures& figures) {
  AddMilliseconds("label", run.label_step, run.label_times, figures);
  AddMilliseconds("nonlabel", run.nonlabel_step, run.nonlabel_times, figures);
}

// Runs that alternate with training in one process, on all cores and, since that is not always faster, on one thread.
// `ratios`: examples per second of each turn, over those of the faster of the two in the same turn.
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

CheckOutcome RatioOutcome(const std::string& name, const LocalRun& run, const Turns& turns, size_t i, double at_least) {
  Figures figures = {{"batch_size", run.agreement.batch_size()},
                     {"threads_per_party", run.label_config.party().compute_threads()},
                     {"split_examples_per_second", Median(turns.split[i])},
                     {"one_thread_examples_per_second", Median(turns.one_thread)},
                     {"all_cores_examples_per_second", Median(turns.all_cores)},
                     {"least_ratio", *std::min_element(turns.ratios[i].begin(), turns.ratios[i].end())},
                     {"largest_ratio", *std::max_element(turns.ratios[i].begin(), turns.ratios[i].end())}};
  AddMilliseconds(turns.last[i], figures);
  return {name, Median(turns.ratios[i]), {Side::kAtLeast, at_least}, figures};
}

absl::Status CheckCentralizedBaseline(const TrainingBenchOptions& options, BenchFolder& folder,
                                      std::vector<CheckOutcome>& outcomes) {
  SPLITVEIL_ASSIGN_OR_RETURN(LocalRun one, WideAndDeep(options, folder));
  LocalRun two = one;
  two.agreement.set_in_flight_batches(2);
  SPLITVEIL_ASSIGN_OR_RETURN(const Turns turns, TakeTurns({one, two}, options, folder));
  outcomes.push_back(RatioOutcome("one_in_flight", one, turns, 0, 0.9));
  outcomes.push_back(RatioOutcome("two_in_flight", two, turns, 1, 1.1));
  return absl::OkStatus();
}

absl::Status CheckLargeBatch(const TrainingBenchOptions& options, BenchFolder& folder,
                             std::vector<CheckOutcome>& outcomes) {
  SPLITVEIL_ASSIGN_OR_RETURN(LocalRun run, folder.WideAndDeep(kRows));
  run.agreement.set_batch_size(kLargeBatch);
  SetSteps(std::max<int64_t>(1, options.steps / 16), kRows, run);
  SPLITVEIL_ASSIGN_OR_RETURN(const Turns turns, TakeTurns({run}, options, folder));
  outcomes.push_back(RatioOutcome("large_batch", run, turns, 0, 0.9));
  return absl::OkStatus();
}

absl::Status CheckIsic(const TrainingBenchOptions& options, BenchFolder& folder, std::vector<CheckOutcome>& outcomes) {
  SPLITVEIL_ASSIGN_OR_RETURN(LocalRun run, folder.Isic(kIsicRows, kIsicSide));
  SetSteps(std::max<int64_t>(1, options.steps / 8), kIsicRows, run);
  SetThreads(options.cores, run);
  SPLITVEIL_ASSIGN_OR_RETURN(const Turns turns, TakeTurns({run}, options, folder));
  outcomes.push_back(RatioOutcome("isic", run, turns, 0, 0.95));
  return absl::OkStatus();
}

absl::Status CheckVocabulary(const TrainingBenchOptions& options, BenchFolder& folder,
                             std::vector<CheckOutcome>& outcomes) {
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
  const Figures figures = {{"batch_size", runs.front().agreement.batch_size()},
                           {"threads_per_party", 1},
                           {"milliseconds_of_1_million", Median(million)},
                           {"milliseconds_of_10_million", Median(ten_million)}};
  // Milliseconds of a whole update, and how much longer it takes with ten times the embedding rows.
  outcomes.push_back({"vocabulary_of_a_million", Median(million), {Side::kBelow, 15}, figures});
  outcomes.push_back({"vocabulary_ten_times", Median(ratios), {Side::kBelow, 1.1}, figures});
  return absl::OkStatus();
}

absl::Status CheckBytes(const TrainingBenchOptions& options, BenchFolder& folder, std::vector<CheckOutcome>& outcomes) {
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
  // Shares of the payload, 2 B d numbers, that the rest of the bytes of a step comes to.
  outcomes.push_back({"float32_bytes",
                      full_bytes / (4 * payload) - 1,
                      {Side::kAtMost, 0.01},
                      {{"bytes_per_step", full_bytes}, {"payload", 4 * payload}}});
  outcomes.push_back({"bfloat16_bytes",
                      half_bytes / (2 * payload) - 1,
                      {Side::kAtMost, 0.01},
                      {{"bytes_per_step", half_bytes}, {"payload", 2 * payload}}});
  outcomes.push_back({"bfloat16_test_auc",
                      std::abs(Mean(half_auc) - Mean(full_auc)),
                      {Side::kAtMost, 0.002},
                      {{"epochs", full.agreement.epochs()},
                       {"float32_test_auc", Mean(full_auc)},
                       {"bfloat16_test_auc", Mean(half_auc)}}});
  return absl::OkStatus();
}

absl::Status CheckShares(const TrainingBenchOptions& options, BenchFolder& folder,
                         std::vector<CheckOutcome>& outcomes) {
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
  Figures figures;
  AddMilliseconds(measured, figures);
  // Shares of the label party's step, and of the step of the party where the attacks take the larger share.
  outcomes.push_back(
      {"marvell_share", measured.label_times.protection / measured.label_step.seconds, {Side::kAtMost, 0.05}, figures});
  figures["label_party_share"] = measured.label_times.attacks / measured.label_step.seconds;
  figures["nonlabel_party_share"] = measured.nonlabel_times.attacks / measured.nonlabel_step.seconds;
  outcomes.push_back({"attacks_share",
                      std::max(figures["label_party_share"], figures["nonlabel_party_share"]),
                      {Side::kAtMost, 0.1},
                      figures});
  return absl::OkStatus();
}

// `run` with noised labels. The account is in the folder of the run, so that no run knows of an earlier one.
LocalRun WithNoisedLabels(LocalRun run, bool release_head_predicts) {
  auto& config = *run.label_config.mutable_protection()->mutable_gaussian_label_dp();
  config.set_max_run_auc_bound(kBound);
  config.set_release_head_predicts(release_head_predicts);
  run.label_config.mutable_privacy_account()->set_path("privacy_account.db");
  run.label_config.mutable_privacy_account()->set_label_set("benchmark");
  return run;
}

// The head that computes what is released, with a second head that predicts or without one, against no protection. The
// runs alternate.
absl::Status CheckReleaseHead(const TrainingBenchOptions& options, BenchFolder& folder,
                              std::vector<CheckOutcome>& outcomes) {
  SPLITVEIL_ASSIGN_OR_RETURN(LocalRun none, WideAndDeep(options, folder));
  none.agreement.set_in_flight_batches(1);
  struct Measured {
    const char* name;
    LocalRun run;
    std::vector<double> speeds = {}, ratios = {};
    BenchRun latest = {};
  };
  std::vector<Measured> measured = {
      {"gaussian_label_dp", WithNoisedLabels(none, /*release_head_predicts=*/false)},
      {"gaussian_label_dp_one_head", WithNoisedLabels(none, /*release_head_predicts=*/true)}};
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
    Figures figures = {{"none_examples_per_second", Median(of_none)},
                       {"gaussian_label_dp_examples_per_second", Median(of.speeds)},
                       {"least_ratio", *std::min_element(of.ratios.begin(), of.ratios.end())},
                       {"largest_ratio", *std::max_element(of.ratios.begin(), of.ratios.end())}};
    AddMilliseconds(of.latest, figures);
    AddMilliseconds("none_label", unprotected.label_step, unprotected.label_times, figures);
    AddMilliseconds("none_nonlabel", unprotected.nonlabel_step, unprotected.nonlabel_times, figures);
    outcomes.push_back({of.name, Median(of.ratios), {Side::kAtLeast, 0.85}, figures});
  }
  return absl::OkStatus();
}

absl::Status CheckMemory(const TrainingBenchOptions& options, BenchFolder& folder,
                         std::vector<CheckOutcome>& outcomes) {
  SPLITVEIL_ASSIGN_OR_RETURN(LocalRun run, folder.WideAndDeep(options.cached_rows));
  int64_t peak = 0;
  SPLITVEIL_RETURN_IF_ERROR(RunSplitForMemory(run, folder, peak).status());
  const double gibibytes = static_cast<double>(peak) / (int64_t{1} << 30);
  // Resident at the non-label party, parameters included.
  outcomes.push_back(
      {"memory_gib", gibibytes, {Side::kBelow, 1.5}, {{"rows", static_cast<double>(options.cached_rows)}}});
  return absl::OkStatus();
}

}  // namespace

bool CheckLimit::Holds(double value) const {
  switch (side) {
    case Side::kAtLeast:
      return value >= bound;
    case Side::kAtMost:
      return value <= bound;
    case Side::kBelow:
      return value < bound;
  }
  return false;
}

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
