#include "deploy/operator/stream/stream.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "deploy/operator/commands.h"
#include "deploy/operator/local_run/local_run.h"
#include "deploy/operator/local_run/two_party_run.h"
#include "deploy/operator/records/figure_cells.h"
#include "deploy/operator/records/ledger_figures.h"
#include "deploy/operator/records/run_records.h"
#include "deploy/operator/report/report.h"

#include "common/config/text_config.h"
#include "common/figures/figure_words.h"
#include "common/process/file.h"
#include "common/status/status_context.h"
#include "common/status/status_macros.h"
#include "label_party/policy/label_config.h"
#include "label_party/protection/self_test.h"

#include "splitveil/v1/stream.pb.h"

namespace splitveil {
namespace {

// Days of data, one after the other, under several protections: each day is predicted by the model that the day before
// left, and then trained on (Li et al. 2021, section 5.4 and Figure 4).
//
//   DIR/runs/PROTECTION/DAY/  one run: agreement.textproto, PARTY.textproto, PARTY.log, PARTY.out, PARTY.db,
//                             PARTY.checkpoint, result.json
//   DIR/stream.csv            one line per finished day and protection
//   DIR/report.html           the leak report of all runs, day by day

// A protection's days and what is known of the first of them.
struct Progressed {
  StreamChain runs;
  std::vector<RunFigures> figures;  // Of the finished days: the first of `runs`.
};

// Finds the results of earlier streams in this folder. A day counts only where all before it do: it continues from
// them.
std::vector<Progressed> FindFinished(std::vector<StreamChain> chains, const LocalRunsOptions& options) {
  std::vector<Progressed> found;
  for (StreamChain& runs : chains) {
    Progressed& chain = found.emplace_back();
    chain.runs = std::move(runs);
    for (const StreamRun& run : chain.runs) {
      absl::StatusOr<RunFigures> figures = FindResult(run, options.FolderOf(run));
      if (!figures.ok()) {
        break;
      }
      chain.figures.push_back(*std::move(figures));
    }
  }
  return found;
}

// The days of one protection that are left.
void RunDays(const LocalRunsOptions& options, Progressed& chain, RunProgress& progress) {
  // A day needs the checkpoint of the day before: a failure ends the days of this protection, not of the others.
  while (chain.figures.size() < chain.runs.size() && !options.stop_requested()) {
    const StreamRun& run = chain.runs[chain.figures.size()];
    const std::string what = absl::StrCat(run.protection, ", ", run.day);
    absl::StatusOr<RunFigures> figures =
        RunToResult(run, options.FolderOf(run), options.programs, options.stop_requested);
    if (!figures.ok()) {
      if (!absl::IsCancelled(figures.status())) {
        progress.Failed(what, run.name, figures.status());
      }
      return;  // The days after it have nothing to continue from.
    }
    progress.Finished(what, *figures);
    chain.figures.push_back(*std::move(figures));
  }
}

// Several protections at a time.
void RunUnfinished(const LocalRunsOptions& options, std::vector<Progressed>& chains, RunProgress& progress) {
  ForEachRun(options, chains.size(), [&](size_t i) { RunDays(options, chains[i], progress); });
}

// With what the label party's ledger says: of every attack, and of the bound. A ledger that somebody took away leaves
// the figures of the result file alone, and fails the report that follows.
StreamedDay ReadDay(const StreamRun& run, const RunFigures& figures, const std::string& ledger) {
  StreamedDay day = {run.day, run.protection, figures};
  const absl::StatusOr<std::vector<LedgerRun>> runs = ReadRuns({ledger});
  if (runs.ok()) {
    day.recorded = FiguresOf(runs->back());
    day.figures.attacks = day.recorded.attacks;
  }
  return day;
}

absl::Status WriteResults(const std::vector<Progressed>& chains, const LocalRunsOptions& options) {
  std::vector<StreamedDay> days;
  std::vector<std::string> ledgers;
  for (const Progressed& chain : chains) {
    for (size_t i = 0; i < chain.figures.size(); ++i) {
      const StreamRun& run = chain.runs[i];
      ledgers.push_back(absl::StrCat(options.FolderOf(run), "/", run.label_config.party().ledger_path()));
      days.push_back(ReadDay(run, chain.figures[i], ledgers.back()));
    }
  }
  if (days.empty()) {
    return absl::OkStatus();
  }
  const std::string csv_path = options.out + "/stream.csv", report_path = options.out + "/report.html";
  SPLITVEIL_RETURN_IF_ERROR(WriteFile(csv_path, StreamCsv(days)));
  SPLITVEIL_RETURN_IF_ERROR(WriteReport(ledgers, report_path));
  std::printf("%s%s\n%s\n", StreamSummary(days).c_str(), csv_path.c_str(), report_path.c_str());
  return absl::OkStatus();
}

// The configuration is a splitveil.v1.StreamConfig; jobs are protections.
//
// Runs what is not finished yet and writes the table and the report of all that is, also where a run failed. A day is
// finished where its result.json is there, of this configuration, these data and those of the days before, and the days
// before are; a day that fails ends its protection's. A line for each run goes to standard error as it ends, a table of
// all to standard output, then the paths. Errors: InvalidArgument and NotFound before any run starts; Internal at the
// end where runs failed, each named on standard error, or where stop was requested.
absl::Status RunStream(const LocalRunsOptions& options) {
  SPLITVEIL_ASSIGN_OR_RETURN(std::vector<StreamChain> planned, PlanStream(options.config_path));
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<FolderLock> lock, FolderLock::Take(options.out));
  std::vector<Progressed> chains = FindFinished(std::move(planned), options);
  int64_t done = 0, total = 0;
  for (const Progressed& chain : chains) {
    done += static_cast<int64_t>(chain.figures.size());
    total += static_cast<int64_t>(chain.runs.size());
  }
  if (done < total) {
    SPLITVEIL_RETURN_IF_ERROR(CheckFirst(chains.front().runs.front(), options.out + "/check", options.programs));
  }
  RunProgress progress(total, done);
  RunUnfinished(options, chains, progress);
  progress.Finish();
  SPLITVEIL_RETURN_IF_ERROR(WriteResults(chains, options));
  return progress.Outcome();
}

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
  AddValue(command, "--config=FILE", options->config_path,
           "The days and the protections: a StreamConfig of proto/splitveil/v1/stream.proto.")
      ->required();
  AddValue(command, "--out=DIR", options->out,
           "Folder for the runs, stream.csv and report.html. Finished runs there are not repeated.")
      ->required();
  AddValue(command, "--jobs=N", options->jobs,
           "Protections trained at the same time, two processes each; 0 takes half the cores.")
      ->check(IntegerIn(0, 1024));
}

namespace {

constexpr size_t kMaxNameBytes = 48;
constexpr char kLabelCheckpoint[] = "label_party.checkpoint";
constexpr char kNonLabelCheckpoint[] = "nonlabel_party.checkpoint";

// Names become folders, and with the protection's before the day's that of a run.
template <typename Named>
absl::Status CheckNames(const char* field, const Named& all) {
  std::map<std::string, std::string> taken;
  for (const auto& named : all) {
    const std::string& name = named.name();
    if (name.size() > kMaxNameBytes || !absl::ascii_isalnum(name[0])) {
      return absl::InvalidArgumentError(absl::StrCat(field, ".name: expected at most ", kMaxNameBytes,
                                                     " bytes that start with a letter or digit, found \"",
                                                     absl::CHexEscape(name), "\""));
    }
    const auto [other, is_new] = taken.emplace(FileName(name), name);
    if (!is_new) {
      return absl::InvalidArgumentError(absl::StrCat(field, ": expected names that differ as file names, found \"",
                                                     absl::CHexEscape(other->second), "\" and \"",
                                                     absl::CHexEscape(name), "\""));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckConfig(const v1::StreamConfig& config) {
  SPLITVEIL_RETURN_IF_ERROR(CheckNames("day", config.day()));
  SPLITVEIL_RETURN_IF_ERROR(CheckNames("protection", config.protection()));
  for (const v1::SweepConfig::Protection& protection : config.protection()) {
    SPLITVEIL_RETURN_IF_ERROR(Within(protection.name(), SelfTestProtection(protection.config())));
  }
  return absl::OkStatus();
}

// A day's data and what stands for them.
struct DayData {
  std::string name, label_path, nonlabel_path, sha256;
};

absl::StatusOr<std::vector<DayData>> ReadDays(const v1::StreamConfig& config, LocalRun base) {
  std::vector<DayData> days;
  for (const v1::StreamConfig::Day& day : config.day()) {
    DayData data{day.name(), day.label_dataset(), day.nonlabel_dataset(), ""};
    base.label_config.mutable_party()->mutable_dataset()->set_path(data.label_path);
    base.nonlabel_config.mutable_party()->mutable_dataset()->set_path(data.nonlabel_path);
    SPLITVEIL_ASSIGN_OR_RETURN(data.sha256, DataSha256(base));
    days.push_back(std::move(data));
  }
  return days;
}

// A run goes on from the day before only within the account that counted that day: the one that the stream started
// from, or one of this protection's days.
void KeepAccount(const LocalRun& base, absl::string_view day, LocalRun& run) {
  v1::PrivacyAccount& account = *run.label_config.mutable_privacy_account();
  account = base.label_config.privacy_account();
  if (!base.label_config.has_privacy_account()) {
    account.set_path("../label_party.account.db");
    account.set_label_set("labels of this stream");
  }
  // An id may come again with another label, and has one in a label set. The account adds up all noise of an id,
  // whatever the label sets. A head of label_dp is kept only within the label set whose flips it has learned.
  if (run.label_config.protection().has_gaussian_label_dp()) {
    account.set_label_set(absl::StrCat(account.label_set(), ", day ", day));
  }
}

// `party` leaves `checkpoint` in its folder and continues from that of the day before; null: fresh weights.
void Chain(const char* checkpoint, const StreamRun* before, v1::PartyCommon& party) {
  party.set_checkpoint_path(checkpoint);
  party.clear_initial_checkpoint();
  if (before != nullptr) {
    party.set_initial_checkpoint(absl::StrCat("../", FileName(before->day), "/", checkpoint));
  }
}

StreamRun MakeRun(const LocalRun& base, const v1::SweepConfig::Protection& protection, const DayData& day,
                  const StreamRun* before) {
  StreamRun run{base, protection.name(), day.name};
  run.name = absl::StrCat(FileName(protection.name()), "/", FileName(day.name));
  run.agreement.set_run_name(absl::StrCat(FileName(protection.name()), "-", FileName(day.name)));
  run.agreement.set_progressive_validation(true);
  run.agreement.set_test_fraction(0);
  run.agreement.set_validation_fraction(0);
  SetProtection(protection.config(), run);
  if (protection.config().has_label_dp() || protection.config().has_gaussian_label_dp()) {
    KeepAccount(base, day.name, run);
  }
  run.label_config.mutable_party()->mutable_dataset()->set_path(day.label_path);
  run.nonlabel_config.mutable_party()->mutable_dataset()->set_path(day.nonlabel_path);
  Chain(kLabelCheckpoint, before, *run.label_config.mutable_party());
  Chain(kNonLabelCheckpoint, before, *run.nonlabel_config.mutable_party());
  run.configuration_sha256 =
      ConfigurationSha256(run, absl::StrCat(day.sha256, before == nullptr ? "" : before->configuration_sha256));
  return run;
}

}  // namespace

absl::StatusOr<std::vector<StreamChain>> PlanStream(const std::string& config_path) {
  v1::StreamConfig config;
  SPLITVEIL_RETURN_IF_ERROR(LoadTextConfig(config_path, config));
  MakePathsAbsolute(config);  // A run is configured in a folder of its own.
  SPLITVEIL_RETURN_IF_ERROR(Within(config_path, CheckConfig(config)));
  SPLITVEIL_ASSIGN_OR_RETURN(
      LocalRun base, LoadLocalRun(config.agreement_path(), config.label_config_path(), config.nonlabel_config_path()));
  SetSeeds(config.seed(), base.label_config, base.nonlabel_config);
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<DayData> days, ReadDays(config, base));
  std::vector<StreamChain> chains;
  for (const v1::SweepConfig::Protection& protection : config.protection()) {
    StreamChain& chain = chains.emplace_back();
    for (const DayData& day : days) {
      StreamRun run = MakeRun(base, protection, day, chain.empty() ? nullptr : &chain.back());
      chain.push_back(std::move(run));
    }
    const absl::Status valid = ValidateLabelConfig(chain.front().label_config, chain.front().agreement);
    SPLITVEIL_RETURN_IF_ERROR(Within(config_path, Within(protection.name(), valid)));
  }
  return chains;
}

namespace {

using LayerAndAttack = std::pair<std::string, std::string>;

// In the order of their first occurrence.
std::vector<LayerAndAttack> LayersAndAttacks(const std::vector<StreamedDay>& days) {
  std::vector<LayerAndAttack> keys;
  for (const StreamedDay& day : days) {
    for (const AttackFigure* leak : day.figures.over_batches()) {
      const LayerAndAttack key(leak->layer, leak->attack);
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
        keys.push_back(key);
      }
    }
  }
  return keys;
}

// Over the days that have the figure; NaN if none has.
double MeanOf(const std::vector<const StreamedDay*>& days,
              const std::function<std::optional<double>(const StreamedDay&)>& figure) {
  double sum = 0;
  int64_t count = 0;
  for (const StreamedDay* day : days) {
    if (const std::optional<double> value = figure(*day); value.has_value() && std::isfinite(*value)) {
      sum += *value;
      ++count;
    }
  }
  return count > 0 ? sum / static_cast<double>(count) : std::numeric_limits<double>::quiet_NaN();
}

std::optional<double> AucOf(const AttackFigure* attack) {
  return attack != nullptr ? std::optional(attack->auc()) : std::nullopt;
}

// What one protection's days came to in the strongest attack: the mean AUC and, of the day that leaks most, the attack,
// "0.850 norm@cut"; "-" if none was measured.
std::string StrongestCell(const std::vector<const StreamedDay*>& days) {
  const AttackFigure* most = nullptr;
  for (const StreamedDay* day : days) {
    const AttackFigure* const attack = day->recorded.strongest();
    if (attack != nullptr && (most == nullptr || attack->auc() > most->auc())) {
      most = attack;
    }
  }
  if (most == nullptr) {
    return "-";
  }
  const double mean = MeanOf(days, [](const StreamedDay& day) { return AucOf(day.recorded.strongest()); });
  return absl::StrCat(FixedCell(mean, 3), " ", most->attack, "@", most->layer);
}

// One day that exceeds its bound is the protection's.
const RunFigures& WorstBound(const std::vector<const StreamedDay*>& days) {
  for (const StreamedDay* day : days) {
    if (day->recorded.bound() == BoundState::kExceeded) {
      return day->recorded;
    }
  }
  return days.front()->recorded;
}

}  // namespace

std::string StreamCsv(const std::vector<StreamedDay>& days) {
  const std::vector<LayerAndAttack> keys = LayersAndAttacks(days);
  std::vector<std::string> cells = {"day", "protection", "test_auc", "log_loss"};
  for (const std::string& column : RankingColumns()) {
    cells.push_back(CsvCell(column));
  }
  for (const auto& [layer, attack] : keys) {
    cells.push_back(CsvCell(absl::StrCat(layer, "_", attack, "_mean")));
  }
  cells.insert(cells.end(), {"run_auc_bound", "sum_kl_mean", "seconds"});
  std::string csv = absl::StrJoin(cells, ",") + "\n";
  for (const StreamedDay& day : days) {
    const RunFigures& figures = day.figures;
    cells = {CsvCell(day.day), CsvCell(day.protection), CsvCell(figures.test.quality()), CsvCell(figures.test.loss())};
    for (const std::string& cell : RankingCells(day.recorded)) {
      cells.push_back(CsvCell(cell));
    }
    for (const auto& [layer, attack] : keys) {
      const AttackFigure* const leak = LeakOf(figures, layer, attack);
      cells.push_back(leak != nullptr ? CsvCell(leak->batches.mean) : "");
    }
    cells.insert(cells.end(), {CsvCell(figures.run_auc_bound), CsvCell(figures.sum_kl_mean), CsvCell(figures.seconds)});
    absl::StrAppend(&csv, absl::StrJoin(cells, ","), "\n");
  }
  return csv;
}

std::string StreamSummary(const std::vector<StreamedDay>& days) {
  std::vector<std::vector<std::string>> rows = {
      {"protection", "days", "strongest", "bound, conditional unless proved", "practical", "with side information",
       absl::StrCat("test ", !days.empty() && days.front().figures.test.is_regression() ? "R^2" : "AUC"), "log loss"}};
  std::vector<std::string> protections;
  for (const StreamedDay& day : days) {
    if (std::find(protections.begin(), protections.end(), day.protection) == protections.end()) {
      protections.push_back(day.protection);
    }
  }
  for (const std::string& protection : protections) {
    std::vector<const StreamedDay*> own_days;
    for (const StreamedDay& day : days) {
      if (day.protection == protection) {
        own_days.push_back(&day);
      }
    }
    std::vector<std::string>& row = rows.emplace_back();
    row = {protection, absl::StrCat(own_days.size()), StrongestCell(own_days),
           BoundStateWords(WorstBound(own_days), AttackNaming::kName)};
    for (const AttackFigure* (RunFigures::*kind)() const :
         {&RunFigures::practical, &RunFigures::with_side_information}) {
      row.push_back(
          FixedCell(MeanOf(own_days, [&](const StreamedDay& day) { return AucOf((day.recorded.*kind)()); }), 3));
    }
    row.insert(row.end(),
               {FixedCell(MeanOf(own_days, [](const StreamedDay& day) { return day.figures.test.quality(); }), 3),
                FixedCell(MeanOf(own_days, [](const StreamedDay& day) { return day.figures.test.loss(); }), 3)});
  }
  return AlignedTable(rows);
}

}  // namespace splitveil
