#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "deploy/operator/records/figure_cells.h"
#include "deploy/operator/stream/stream.h"

#include "common/figures/figure_words.h"

namespace splitveil {
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
