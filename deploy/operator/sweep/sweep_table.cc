#include "deploy/operator/sweep/sweep_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "deploy/operator/local_run/figures_table.h"

namespace splitveil {
namespace {

constexpr size_t kSummaryLeaks = 4;

}  // namespace

std::string SweepCsv(const std::vector<SweptRun>& runs) {
  const auto keys = LayersAndAttacks(runs);
  std::vector<std::string> cells = {"run",           "protection",     "parameter",     "seed",
                                    "best_test_auc", "final_test_auc", "test_log_loss", "steps"};
  for (const auto& [layer, attack] : keys) {
    cells.push_back(CsvCell(absl::StrCat(layer, "_", attack, "_mean")));
    cells.push_back(CsvCell(absl::StrCat(layer, "_", attack, "_p95")));
  }
  cells.insert(cells.end(), {"run_auc_bound", "auc_bound_p95", "sum_kl_mean", "seconds"});
  std::string csv = absl::StrJoin(cells, ",") + "\n";
  for (const SweptRun& swept : runs) {
    const RunFigures& figures = swept.figures;
    const SweepProtection& protection = swept.run.protection;
    cells = {CsvCell(swept.run.name),
             protection.family,
             protection.parameter ? CsvCell(*protection.parameter) : "",
             absl::StrCat(swept.run.seed),
             CsvCell(figures.best_test_auc),
             CsvCell(figures.final_test_auc),
             CsvCell(figures.test_log_loss),
             absl::StrCat(figures.steps)};
    for (const auto& key : keys) {
      const LeakPoint leak = LeakOf(figures, key.first, key.second);
      cells.insert(cells.end(), {CsvCell(leak.mean), CsvCell(leak.p95)});
    }
    cells.insert(cells.end(), {CsvCell(figures.run_auc_bound), CsvCell(figures.auc_bound_p95),
                               CsvCell(figures.sum_kl_mean), CsvCell(figures.seconds)});
    absl::StrAppend(&csv, absl::StrJoin(cells, ","), "\n");
  }
  return csv;
}

std::string SweepSummary(const std::vector<SweptRun>& runs) {
  auto keys = LayersAndAttacks(runs);
  keys.resize(std::min(keys.size(), kSummaryLeaks));
  std::vector<std::vector<std::string>> rows = {{"protection", "seeds", "test AUC", "log-loss"}};
  for (const auto& [layer, attack] : keys) {
    rows[0].push_back(absl::StrCat(layer, " ", attack, " p95"));
  }
  rows[0].insert(rows[0].end(), {"remembered", "seconds"});
  for (const TradeoffPoint& point : SummarizeSeeds(runs)) {
    std::vector<std::string>& row = rows.emplace_back();
    row = {point.name, absl::StrCat(point.seeds), FixedCell(point.best_test_auc.mean, 4),
           FixedCell(point.test_log_loss.mean, 4)};
    for (size_t i = 0; i < keys.size(); ++i) {
      row.push_back(FixedCell(point.leaks[i].p95.mean, 3));
    }
    row.insert(row.end(), {FixedCell(point.run_auc_bound.mean, 3), FixedCell(point.seconds.mean, 0)});
  }
  return AlignedTable(rows);
}

}  // namespace splitveil
