#include "deploy/operator/sweep/attribute_table.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "deploy/operator/local_run/figures_table.h"
#include "deploy/operator/sweep/attribute_tradeoff.h"

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
std::string RangeCell(const Spread& spread) {
  const std::string mean = FixedCell(spread.mean, 3), min = FixedCell(spread.min, 3), max = FixedCell(spread.max, 3);
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
                                 CsvCell(leak.floor), CsvCell(leak.auc), CsvCell(leak.advantage())});
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
    const std::string proved =
        std::isfinite(point.proved_auc_bound.mean)
            ? absl::StrCat("AUC at most ", FixedCell(point.proved_auc_bound.mean, 3), " in one run")
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

}  // namespace splitveil
