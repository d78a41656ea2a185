#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "deploy/operator/records/figure_cells.h"
#include "deploy/operator/sweep/tradeoff.h"

#include "common/figures/figure_words.h"
#include "common/leakage/summary.h"

namespace splitveil {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

using AttackPlace = std::pair<std::string, std::string>;  // Attack and examples.

// By attribute, all attacks that any run measured.
std::map<std::string, std::set<AttackPlace>> PlacesOf(const std::vector<SweptRun>& runs) {
  std::map<std::string, std::set<AttackPlace>> places;
  for (const SweptRun& run : runs) {
    if (!run.attributes.has_value()) {
      continue;
    }
    for (const AttributeFigure& figure : run.attributes->figures) {
      places[figure.leak.attribute].insert({figure.leak.attack, figure.leak.examples});
    }
  }
  return places;
}

// The strongest first; null where the run has none.
const AttributeFigure* StrongestOf(const AttributeRecords& records, const std::string& attribute) {
  for (const AttributeFigure& figure : records.figures) {
    if (figure.leak.attribute == attribute) {
      return &figure;
    }
  }
  return nullptr;
}

double AccuracyOf(const AttributeRecords& records, const std::string& attribute, const AttackPlace& place) {
  for (const AttributeFigure& figure : records.figures) {
    if (figure.leak.attribute == attribute && figure.leak.attack == place.first &&
        figure.leak.examples == place.second) {
      return figure.leak.accuracy;
    }
  }
  return kNone;
}

// "0.674 (0.669 to 0.680)"; of one seed, or of several that agree, the number alone.
std::string RangeCell(const Spread& spread, int digits = 3) {
  const std::string mean = FixedCell(spread.mean, digits), min = FixedCell(spread.min, digits);
  const std::string max = FixedCell(spread.max, digits);
  return min == max ? mean : absl::StrCat(mean, " (", min, " to ", max, ")");
}

}  // namespace

std::vector<std::string> AttributeColumns(const std::vector<SweptRun>& runs) {
  if (!HasOtherDirection(runs)) {
    return {};
  }
  std::vector<std::string> columns = {"activation_protection",      "cut_layer",           "cut_width", "test_accuracy",
                                      "proved_attribute_auc_bound", "largest_privacy_loss"};
  for (const auto& [attribute, places] : PlacesOf(runs)) {
    for (const char* figure : {"attack", "accuracy", "floor", "auc", "advantage"}) {
      columns.push_back(absl::StrCat(attribute, "_", figure));
    }
    for (const auto& [attack, examples] : places) {
      columns.push_back(absl::StrCat(attribute, "_", attack, "_", examples, "_accuracy"));
    }
  }
  return columns;
}

std::vector<std::string> AttributeCells(const std::vector<SweptRun>& runs, const SweptRun& run) {
  if (!HasOtherDirection(runs)) {
    return {};
  }
  const AttributeRecords records = run.attributes.value_or(AttributeRecords());
  std::vector<std::string> cells = {CsvCell(run.attributes.has_value() ? records.protection : ""),
                                    CsvCell(run.run.agreement.cut_layer()),
                                    absl::StrCat(run.run.agreement.cut_width()),
                                    CsvCell(run.test_accuracy),
                                    CsvCell(records.bound.has_value() ? records.bound->auc_bound : kNone),
                                    CsvCell(records.largest_privacy_loss)};
  for (const auto& [attribute, places] : PlacesOf(runs)) {
    const AttributeFigure* strongest = StrongestOf(records, attribute);
    if (strongest == nullptr) {
      cells.insert(cells.end(), 5, "");
    } else {
      const AttributeLeakRow& leak = strongest->leak;
      cells.insert(cells.end(), {CsvCell(absl::StrCat(leak.attack, "@", leak.examples)), CsvCell(leak.accuracy),
                                 CsvCell(leak.floor), CsvCell(InvertedAuc(leak.auc)), CsvCell(leak.advantage())});
    }
    for (const AttackPlace& place : places) {
      cells.push_back(CsvCell(AccuracyOf(records, attribute, place)));
    }
  }
  return cells;
}

std::string AttributeSummary(const std::vector<SweptRun>& runs) {
  std::vector<std::vector<std::string>> rows = {{"protection", "seeds", "activations", "test accuracy", "attribute",
                                                 "strongest attack", "accuracy", "floor", "advantage", "AUC",
                                                 "proved"}};
  for (const AttributePoint& point : SummarizeAttributes(runs)) {
    const std::string proved = std::isfinite(point.proved_auc_bound.mean)
                                   ? absl::StrCat("AUC at most ", BoundText(point.proved_auc_bound.mean), " in one run")
                                   : "nothing";
    const std::string activations = point.protection.empty() ? "-" : point.protection;
    for (const AttributeSpread& spread : point.attributes) {
      const AttributeAttackSpread& strongest = spread.strongest;
      rows.push_back({point.name, absl::StrCat(point.seeds), activations, RangeCell(point.test_accuracy),
                      spread.attribute, absl::StrCat(strongest.attack, " at ", strongest.examples),
                      RangeCell(strongest.accuracy), FixedCell(spread.floor.mean, 3),
                      FixedCell(strongest.advantage.mean, 3), FixedCell(strongest.auc.mean, 3), proved});
    }
    if (point.attributes.empty()) {
      rows.push_back({point.name, absl::StrCat(point.seeds), activations, RangeCell(point.test_accuracy), "-", "-", "-",
                      "-", "-", "-", proved});
    }
  }
  return rows.size() == 1 ? "" : absl::StrCat("\nSensitive attributes, the other direction:\n", AlignedTable(rows));
}

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
                    FixedCell(point.test_quality.mean, 3), RangeCell(point.kept.share, 2)});
  }
  return absl::StrCat(AlignedTable(rows), GainWords(runs), "\n", AttributeSummary(runs));
}

}  // namespace splitveil
