#include "deploy/sweep/sweep.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "deploy/sweep/finished_run.h"
#include "deploy/sweep/folder_lock.h"
#include "deploy/sweep/sweep_plan.h"
#include "deploy/sweep/sweep_progress.h"
#include "deploy/sweep/sweep_table.h"
#include "deploy/sweep/tradeoff.h"
#include "deploy/sweep/tradeoff_page.h"
#include "deploy/sweep/two_party_run.h"

#include "common/process/file.h"

namespace splitveil {
namespace {

// A run and what is known of it.
struct Cell {
  SweepRun run;
  std::optional<RunFigures> figures;  // Where it is finished.
  bool outdated = false;              // A result is there, but not of this configuration.
};

std::string RunFolder(const SweepOptions& options, const SweepRun& run) {
  return absl::StrCat(options.out, "/runs/", run.name);
}

// Looks what earlier sweeps have left.
std::vector<Cell> FindFinished(std::vector<SweepRun> runs, const SweepOptions& options) {
  std::vector<Cell> cells;
  for (SweepRun& run : runs) {
    Cell& cell = cells.emplace_back();
    if (const absl::StatusOr<std::string> json = ReadFile(RunFolder(options, run) + "/result.json"); json.ok()) {
      absl::StatusOr<RunFigures> figures = ParseFinishedRun(*json, run.configuration_sha256);
      cell.outdated = !figures.ok();
      if (figures.ok()) {
        cell.figures = *std::move(figures);
      }
    }
    cell.run = std::move(run);
  }
  return cells;
}

absl::Status MakeEmptyFolder(const std::string& folder) {
  std::error_code error;
  std::filesystem::remove_all(folder, error);
  if (!error) {
    std::filesystem::create_directories(folder, error);
  }
  return error ? absl::InvalidArgumentError(absl::StrCat(folder, ": cannot be made: ", error.message()))
               : absl::OkStatus();
}

// One run from start to result.json.
absl::StatusOr<RunFigures> Run(const SweepRun& run, const SweepOptions& options) {
  const std::string folder = RunFolder(options, run);
  if (absl::Status status = MakeEmptyFolder(folder); !status.ok()) {
    return status;
  }
  const absl::Time started = absl::Now();
  if (absl::Status status = RunBothParties(run, folder, options.programs, options.stop_requested); !status.ok()) {
    return status;
  }
  const double seconds = absl::ToDoubleSeconds(absl::Now() - started);
  const absl::StatusOr<std::string> result = ReadFile(absl::StrCat(folder, "/", run.label_config.result_path()));
  if (!result.ok()) {
    return result.status();
  }
  const absl::StatusOr<std::string> finished = FinishedRunJson(*result, run.configuration_sha256, seconds);
  if (!finished.ok()) {
    return finished.status();
  }
  absl::StatusOr<RunFigures> figures = ParseFinishedRun(*finished, run.configuration_sha256);
  if (figures.ok()) {
    if (absl::Status status = WriteFile(folder + "/result.json", *finished); !status.ok()) {
      return status;
    }
  }
  return figures;
}

// Works through the unfinished cells, several at a time.
void RunUnfinished(std::vector<Cell>& cells, const SweepOptions& options, SweepProgress& progress) {
  std::vector<Cell*> unfinished;
  for (Cell& cell : cells) {
    if (!cell.figures) {
      unfinished.push_back(&cell);
    }
  }
  std::atomic<size_t> next{0};
  // Each cell is touched by the one thread that took it.
  const auto work = [&] {
    for (size_t i = next++; i < unfinished.size() && !options.stop_requested(); i = next++) {
      Cell& cell = *unfinished[i];
      absl::StatusOr<RunFigures> figures = Run(cell.run, options);
      if (figures.ok()) {
        cell.figures = *std::move(figures);
        progress.Finished(cell.run, *cell.figures);
      } else if (!absl::IsCancelled(figures.status())) {
        progress.Failed(cell.run, figures.status());
      }
    }
  };
  std::vector<std::thread> workers;
  const size_t count = std::min(static_cast<size_t>(options.jobs), unfinished.size());
  for (size_t i = 0; i < count; ++i) {
    workers.emplace_back(work);
  }
  for (std::thread& worker : workers) {
    worker.join();
  }
}

void PrintPlan(const std::vector<Cell>& cells) {
  for (const Cell& cell : cells) {
    std::printf("%-40s %s\n", cell.run.name.c_str(),
                cell.figures    ? "done"
                : cell.outdated ? "to run: the result there is of another configuration"
                                : "to run");
  }
}

absl::Status WriteResults(const std::vector<Cell>& cells, const SweepOptions& options) {
  std::vector<SweptRun> finished;
  for (const Cell& cell : cells) {
    if (cell.figures) {
      finished.push_back({cell.run, *cell.figures});
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

// What went wrong is found before an hour of runs.
absl::Status CheckFirst(const std::vector<Cell>& cells, const SweepOptions& options) {
  const std::string folder = options.out + "/check";
  absl::Status status = MakeEmptyFolder(folder);
  if (status.ok()) {
    status = CheckBothParties(cells.front().run, folder, options.programs);
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return status;
}

}  // namespace

absl::Status RunSweep(const SweepOptions& options) {
  absl::StatusOr<std::vector<SweepRun>> runs = PlanSweep(options.config_path);
  if (!runs.ok()) {
    return runs.status();
  }
  if (options.dry_run) {
    PrintPlan(FindFinished(*std::move(runs), options));
    return absl::OkStatus();
  }
  const absl::StatusOr<std::unique_ptr<FolderLock>> lock = FolderLock::Take(options.out);
  if (!lock.ok()) {
    return lock.status();
  }
  std::vector<Cell> cells = FindFinished(*std::move(runs), options);
  const int64_t done =
      std::count_if(cells.begin(), cells.end(), [](const Cell& cell) { return cell.figures.has_value(); });
  const int64_t total = static_cast<int64_t>(cells.size());
  if (done < total) {
    if (absl::Status status = CheckFirst(cells, options); !status.ok()) {
      return status;
    }
  }
  SweepProgress progress(total, done);
  RunUnfinished(cells, options, progress);
  if (absl::Status status = WriteResults(cells, options); !status.ok()) {
    return status;
  }
  return progress.Outcome();
}

}  // namespace splitveil
