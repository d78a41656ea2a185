#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "deploy/operator/commands.h"
#include "deploy/operator/local_run/two_party_run.h"
#include "deploy/operator/records/ledger_figures.h"
#include "deploy/operator/records/run_records.h"
#include "deploy/operator/sweep/sweep_plan.h"
#include "deploy/operator/sweep/tradeoff.h"

#include "common/process/file.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

// A grid of protections and seeds, run for real: both parties' programs, once for each cell.
//
//   DIR/runs/NAME/     one run: agreement.textproto, PARTY.textproto, PARTY.log, PARTY.out, PARTY.db, result.json
//   DIR/sweep.csv      one line per finished run
//   DIR/tradeoff.html  what leaks against model quality

// The configuration is a splitveil.v1.SweepConfig.
struct SweepOptions : LocalRunsOptions {
  bool dry_run = false;  // Print the runs and what is there already; run and write nothing.
  // Whether the runs may count in the privacy account of the configuration what it does not have yet
  // (ForeseeSweepDebit).
  bool debit_account = false;
};

// A run and what is known of it.
struct Cell {
  SweepRun run;
  std::optional<RunFigures> figures;  // Where it is finished.
  bool outdated = false;              // A result is there, but not of this configuration.
};

// Finds the results of earlier sweeps in this folder.
std::vector<Cell> FindFinished(std::vector<SweepRun> runs, const SweepOptions& options) {
  std::vector<Cell> cells;
  for (SweepRun& run : runs) {
    Cell& cell = cells.emplace_back();
    absl::StatusOr<RunFigures> figures = FindResult(run, options.FolderOf(run));
    cell.outdated = !figures.ok() && !absl::IsNotFound(figures.status());
    if (figures.ok()) {
      cell.figures = *std::move(figures);
    }
    cell.run = std::move(run);
  }
  return cells;
}

// Works through the unfinished cells, several at a time.
void RunUnfinished(std::vector<Cell>& cells, const SweepOptions& options, RunProgress& progress) {
  std::vector<Cell*> unfinished;
  for (Cell& cell : cells) {
    if (!cell.figures) {
      unfinished.push_back(&cell);
    }
  }
  ForEachRun(options, unfinished.size(), [&](size_t i) {
    Cell& cell = *unfinished[i];
    const std::string what = absl::StrCat(cell.run.protection.name, ", seed ", cell.run.seed);
    absl::StatusOr<RunFigures> figures =
        RunToResult(cell.run, options.FolderOf(cell.run), options.programs, options.stop_requested);
    if (figures.ok()) {
      cell.figures = *std::move(figures);
      progress.Finished(what, *cell.figures);
    } else if (!absl::IsCancelled(figures.status())) {
      progress.Failed(what, cell.run.name, figures.status());
    }
  });
}

void PrintPlan(const std::vector<Cell>& cells) {
  for (const Cell& cell : cells) {
    std::printf("%-40s %s\n", cell.run.name.c_str(),
                cell.figures    ? "done"
                : cell.outdated ? "to run: the result there is of another configuration"
                                : "to run");
  }
}

// What the unfinished cells would count in an account that outlives the sweep.
absl::StatusOr<SweepDebit> ForeseeDebit(const std::vector<Cell>& cells) {
  std::vector<const SweepRun*> unfinished;
  for (const Cell& cell : cells) {
    if (!cell.figures) {
      unfinished.push_back(&cell.run);
    }
  }
  return ForeseeSweepDebit(unfinished);
}

// Says it, and refuses it where it is not allowed.
absl::Status AnnounceDebit(const std::vector<Cell>& cells, const SweepOptions& options) {
  SPLITVEIL_ASSIGN_OR_RETURN(const SweepDebit debit, ForeseeDebit(cells));
  if (debit.counts && !options.debit_account) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.config_path, ": ", debit.words,
                     "; add --debit_account to allow it, or use a label party's configuration without "
                     "privacy_account, whose runs have accounts in their own folders"));
  }
  if (!debit.words.empty()) {
    std::fprintf(stderr, "%s\n", debit.words.c_str());
  }
  return absl::OkStatus();
}

// With what the label party's ledger says: of every attack, and of the bound. A ledger that somebody took away leaves
// the figures of the RESULT line alone.
SweptRun ReadSweptRun(const Cell& cell, const SweepOptions& options) {
  SweptRun swept = {cell.run, *cell.figures, {}};
  const std::string ledger = absl::StrCat(options.FolderOf(cell.run), "/", cell.run.label_config.party().ledger_path());
  const absl::StatusOr<std::vector<LedgerRun>> runs = ReadRuns({ledger});
  if (!runs.ok()) {
    std::fprintf(stderr, "%s: %s\n", cell.run.name.c_str(), std::string(runs.status().message()).c_str());
    return swept;
  }
  swept.recorded = FiguresOf(runs->back());
  // The ledger has every attack in full; the result file has rounded summaries.
  swept.figures.attacks = swept.recorded.attacks;
  if (const EvaluationRow* const kept = KeptTest(runs->back().evaluations()); kept != nullptr) {
    swept.test_accuracy = kept->accuracy;
  }
  const std::string others =
      absl::StrCat(options.FolderOf(cell.run), "/", cell.run.nonlabel_config.party().ledger_path());
  if (const absl::StatusOr<std::vector<LedgerRun>> nonlabel = ReadRuns({others}); nonlabel.ok()) {
    swept.attributes = AttributeRecordsOf(nonlabel->back());
  } else {
    std::fprintf(stderr, "%s: %s\n", cell.run.name.c_str(), std::string(nonlabel.status().message()).c_str());
  }
  return swept;
}

// One run of every variant, since each has another configuration of the parties.
absl::Status CheckVariants(const std::vector<Cell>& cells, const SweepOptions& options) {
  std::set<std::pair<std::string, std::string>> checked;
  for (const Cell& cell : cells) {
    const SweepVariant& variant = cell.run.variant;
    if (checked.emplace(variant.activation_name, variant.cut_layer).second) {
      SPLITVEIL_RETURN_IF_ERROR(CheckFirst(cell.run, options.out + "/check", options.programs));
    }
  }
  return absl::OkStatus();
}

absl::Status WriteResults(const std::vector<Cell>& cells, const SweepOptions& options) {
  std::vector<SweptRun> finished;
  for (const Cell& cell : cells) {
    if (cell.figures) {
      finished.push_back(ReadSweptRun(cell, options));
    }
  }
  if (finished.empty()) {
    return absl::OkStatus();
  }
  const std::string csv_path = options.out + "/sweep.csv", page_path = options.out + "/tradeoff.html";
  absl::Status status = WriteFile(csv_path, SweepCsv(finished));
  if (status.ok()) {
    status = WriteFile(page_path, TradeoffPage(finished, static_cast<int64_t>(cells.size())));
  }
  if (status.ok()) {
    std::printf("%s%s\n%s\n", SweepSummary(finished).c_str(), csv_path.c_str(), page_path.c_str());
  }
  return status;
}

// Runs what is not finished yet and writes the table and the page of all that is, also where a run failed. A run is
// finished where its result.json is there and of this configuration and these data; what an interrupted or failed run
// left is thrown away and the run repeated. A line for each run goes to standard error as it ends, a table of all to
// standard output. What the runs will count in a privacy account that outlives the sweep is said on standard error
// before they start, and refused where it is anything and the options do not allow it: a trial must not use up what the
// labels may disclose unless somebody wants it to. Errors: InvalidArgument and NotFound before any run starts; Internal
// at the end where runs failed, each named on standard error, or where stop was requested.
absl::Status RunSweep(const SweepOptions& options) {
  SPLITVEIL_ASSIGN_OR_RETURN(std::vector<SweepRun> runs, PlanSweep(options.config_path));
  if (options.dry_run) {
    const std::vector<Cell> cells = FindFinished(std::move(runs), options);
    PrintPlan(cells);
    SPLITVEIL_ASSIGN_OR_RETURN(const SweepDebit debit, ForeseeDebit(cells));
    std::printf("%s%s", debit.words.c_str(), debit.words.empty() ? "" : "\n");
    return absl::OkStatus();
  }
  // Two sweeps in one folder would delete each other's unfinished runs.
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<FolderLock> lock, FolderLock::Take(options.out));
  std::vector<Cell> cells = FindFinished(std::move(runs), options);
  const int64_t done =
      std::count_if(cells.begin(), cells.end(), [](const Cell& cell) { return cell.figures.has_value(); });
  const int64_t total = static_cast<int64_t>(cells.size());
  // Before any run starts, because what an account counts is never taken off it again.
  SPLITVEIL_RETURN_IF_ERROR(AnnounceDebit(cells, options));
  // A wrong certificate or path is reported within seconds, not hours into the sweep.
  if (done < total) {
    SPLITVEIL_RETURN_IF_ERROR(CheckVariants(cells, options));
  }
  RunProgress progress(total, done);
  RunUnfinished(cells, options, progress);
  progress.Finish();
  // Even if runs failed: the finished ones are worth their table.
  SPLITVEIL_RETURN_IF_ERROR(WriteResults(cells, options));
  return progress.Outcome();
}

absl::StatusOr<ExitCode> Sweep(SweepOptions options) {
  SPLITVEIL_RETURN_IF_ERROR(FindLocalPrograms(options));
  SPLITVEIL_RETURN_IF_ERROR(RunSweep(options));
  return ExitCode::kDone;
}

}  // namespace

void AddSweepCommand(CommandLine& line) {
  const auto options = std::make_shared<SweepOptions>();
  options->jobs = 0;
  CLI::App& command =
      line.AddCommand({"sweep", "Train a grid of protections and seeds, and chart leakage against model quality.",
                       "splitveil sweep --config=sweep.textproto --out=out/sweep", "Many runs on this machine"},
                      [options] { return Sweep(*options); });
  AddValue(command, "--config=FILE", options->config_path, "The grid: a SweepConfig of proto/splitveil/v1/sweep.proto.")
      ->required();
  AddValue(command, "--out=DIR", options->out,
           "Folder for the runs, sweep.csv and tradeoff.html. Finished runs there are not repeated.")
      ->required();
  AddValue(command, "--jobs=N", options->jobs, "Runs at the same time, two processes each; 0 takes half the cores.")
      ->check(IntegerIn(0, 1024));
  command.add_flag("--dry_run", options->dry_run, "List the runs and which of them are finished; run nothing.");
  command.add_flag("--debit_account", options->debit_account,
                   "Let the runs debit the privacy account that the label party's configuration names.");
}

}  // namespace splitveil
