#include <algorithm>
#include <atomic>
#include <cstdio>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "deploy/operator/commands.h"
#include "deploy/operator/local_run/local_programs.h"
#include "deploy/operator/local_run/two_party_run.h"
#include "deploy/operator/records/ledger_figures.h"
#include "deploy/operator/records/run_records.h"
#include "deploy/operator/report/report.h"
#include "deploy/operator/stream/stream.h"

#include "common/process/file.h"
#include "common/status/status_macros.h"

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

std::string RunFolder(const LocalRunsOptions& options, const StreamRun& run) {
  return absl::StrCat(options.out, "/runs/", run.name);
}

// Finds the results of earlier streams in this folder. A day counts only where all before it do: it continues from
// them.
std::vector<Progressed> FindFinished(std::vector<StreamChain> chains, const LocalRunsOptions& options) {
  std::vector<Progressed> found;
  for (StreamChain& runs : chains) {
    Progressed& chain = found.emplace_back();
    chain.runs = std::move(runs);
    for (const StreamRun& run : chain.runs) {
      absl::StatusOr<RunFigures> figures = FindResult(run, RunFolder(options, run));
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
        RunToResult(run, RunFolder(options, run), options.programs, options.stop_requested);
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
  std::atomic<size_t> next{0};
  // Each chain is touched by the one thread that took it.
  const auto work = [&] {
    for (size_t i = next++; i < chains.size(); i = next++) {
      RunDays(options, chains[i], progress);
    }
  };
  std::vector<std::thread> workers;
  const size_t count = std::min(static_cast<size_t>(options.jobs), chains.size());
  for (size_t i = 0; i < count; ++i) {
    workers.emplace_back(work);
  }
  for (std::thread& worker : workers) {
    worker.join();
  }
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
      ledgers.push_back(absl::StrCat(RunFolder(options, run), "/", run.label_config.party().ledger_path()));
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
  AddValue(command, "--config=FILE", options->config_path, "The days and the protections.")->required();
  AddValue(command, "--out=DIR", options->out,
           "Folder for the runs, stream.csv and report.html. Finished runs there are not repeated.")
      ->required();
  AddValue(command, "--jobs=N", options->jobs,
           "Protections trained at the same time, two processes each; 0 takes half the cores.")
      ->check(IntegerIn(0, 1024));
}

}  // namespace splitveil
