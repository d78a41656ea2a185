#include "deploy/operator/sweep/sweep_table.h"

#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "deploy/operator/local_run/figures_table.h"
#include "deploy/operator/records/ranking_cells.h"
#include "deploy/operator/sweep/attribute_table.h"

#include "common/figures/figure_words.h"

namespace splitveil {
namespace {

// "0.83 (0.71 to 0.92)"; of one seed, or of several that agree, the number alone.
std::string ShareCell(const Spread& share) {
  const std::string mean = FixedCell(share.mean, 2), min = FixedCell(share.min, 2), max = FixedCell(share.max, 2);
  return min == max ? mean : absl::StrCat(mean, " (", min, " to ", max, ")");
}

}  // namespace

std::string SweepCsv(const std::vector<SweptRun>& runs) {
  const auto keys = LayersAndAttacks(runs);
  std::vector<std::string> cells = {"run", "protection", "parameter", "seed"};
  for (const std::string& column : RankingColumns()) {
    cells.push_back(CsvCell(column));
  }
  const std::string quality = IsRegression(runs) ? "test_r2" : "test_auc";
  cells.insert(cells.end(), {quality, "frozen_" + quality, "none_" + quality, "gain_kept", "final_" + quality,
                             IsRegression(runs) ? "test_rmse" : "test_log_loss", "steps"});
  for (const auto& [layer, attack] : keys) {
    cells.push_back(CsvCell(absl::StrCat(layer, "_", attack, "_mean")));
    cells.push_back(CsvCell(absl::StrCat(layer, "_", attack, "_p95")));
  }
  cells.insert(cells.end(), {"run_auc_bound", "auc_bound_p95", "sum_kl_mean", "seconds"});
  for (const std::string& column : AttributeColumns(runs)) {
    cells.push_back(CsvCell(column));
  }
  std::string csv = absl::StrJoin(cells, ",") + "\n";
  for (const SweptRun& swept : runs) {
    const RunFigures& figures = swept.figures;
    const std::optional<double> quality_of_run = figures.test.quality();
    const uint64_t seed = swept.run.seed;
    const BottomGain gain = GainOf(runs, swept.run.variant.cut_layer);
    const SweepProtection& protection = swept.run.protection;
    cells = {CsvCell(swept.run.name), protection.family, protection.parameter ? CsvCell(*protection.parameter) : "",
             absl::StrCat(seed)};
    for (const std::string& cell : RankingCells(swept.recorded)) {
      cells.push_back(CsvCell(cell));
    }
    cells.insert(cells.end(),
                 {CsvCell(quality_of_run), CsvCell(gain.FrozenQuality(seed)), CsvCell(gain.NoneQuality(seed)),
                  CsvCell(gain.ShareKept(seed, quality_of_run.value_or(std::nan("")))),
                  CsvCell(figures.final_test.quality()), CsvCell(figures.test.loss()), absl::StrCat(figures.steps)});
    for (const auto& key : keys) {
      const AttackFigure* const leak = LeakOf(figures, key.first, key.second);
      const bool measured = leak != nullptr;
      cells.insert(cells.end(),
                   {measured ? CsvCell(leak->batches.mean) : "", measured ? CsvCell(leak->batches.p95) : ""});
    }
    cells.insert(cells.end(), {CsvCell(figures.run_auc_bound), CsvCell(figures.auc_bound_p95),
                               CsvCell(figures.sum_kl_mean), CsvCell(figures.seconds)});
    for (const std::string& cell : AttributeCells(runs, swept)) {
      cells.push_back(cell);
    }
    absl::StrAppend(&csv, absl::StrJoin(cells, ","), "\n");
  }
  return csv;
}

std::string SweepSummary(const std::vector<SweptRun>& runs) {
  std::vector<std::vector<std::string>> rows = {{"protection", "seeds", "strongest", "bound", "verdict", "worst case",
                                                 "practical", absl::StrCat("test ", QualityName(runs)), "gain kept"}};
  for (const TradeoffPoint& point : SummarizeSeeds(runs)) {
    rows.push_back({point.name, absl::StrCat(point.seeds), FixedCell(point.strongest.auc.mean, 3),
                    absl::StrReplaceAll(BoundStateName(point.bound), {{"_", " "}}), point.verdict,
                    FixedCell(point.worst_case.auc.mean, 3), FixedCell(point.practical.auc.mean, 3),
                    FixedCell(point.test_quality.mean, 3), ShareCell(point.kept.share)});
  }
  return absl::StrCat(AlignedTable(rows), GainWords(runs), "\n", AttributeSummary(runs));
}

}  // namespace splitveil
