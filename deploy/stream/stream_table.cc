#include "deploy/stream/stream_table.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "deploy/local_run/figures_table.h"

namespace splitveil {
namespace {

constexpr size_t kSummaryLeaks = 4;

using LayerAndAttack = std::pair<std::string, std::string>;

// In the order of their first occurrence.
std::vector<LayerAndAttack> LayersAndAttacks(const std::vector<StreamedDay>& days) {
  std::vector<LayerAndAttack> keys;
  for (const StreamedDay& day : days) {
    for (const LeakPoint& leak : day.figures.leaks) {
      const LayerAndAttack key(leak.layer, leak.attack);
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
        keys.push_back(key);
      }
    }
  }
  return keys;
}

// Over the days of a protection that have the figure; NaN where none has.
double MeanOf(const std::vector<StreamedDay>& days, const std::string& protection,
              const std::function<double(const RunFigures&)>& figure) {
  double sum = 0;
  int64_t count = 0;
  for (const StreamedDay& day : days) {
    const double value = figure(day.figures);
    if (day.protection == protection && std::isfinite(value)) {
      sum += value;
      ++count;
    }
  }
  return count > 0 ? sum / static_cast<double>(count) : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

std::string StreamCsv(const std::vector<StreamedDay>& days) {
  const std::vector<LayerAndAttack> keys = LayersAndAttacks(days);
  std::vector<std::string> cells = {"day", "protection", "test_auc", "log_loss"};
  for (const auto& [layer, attack] : keys) {
    cells.push_back(CsvCell(absl::StrCat(layer, "_", attack, "_mean")));
  }
  cells.insert(cells.end(), {"remembered_auc", "sum_kl_mean", "seconds"});
  std::string csv = absl::StrJoin(cells, ",") + "\n";
  for (const StreamedDay& day : days) {
    const RunFigures& figures = day.figures;
    cells = {CsvCell(day.day), CsvCell(day.protection), CsvCell(figures.best_test_auc), CsvCell(figures.test_log_loss)};
    for (const auto& [layer, attack] : keys) {
      cells.push_back(CsvCell(LeakOf(figures, layer, attack).mean));
    }
    cells.insert(cells.end(),
                 {CsvCell(figures.remembered_auc), CsvCell(figures.sum_kl_mean), CsvCell(figures.seconds)});
    absl::StrAppend(&csv, absl::StrJoin(cells, ","), "\n");
  }
  return csv;
}

std::string StreamSummary(const std::vector<StreamedDay>& days) {
  std::vector<LayerAndAttack> keys = LayersAndAttacks(days);
  keys.resize(std::min(keys.size(), kSummaryLeaks));
  std::vector<std::vector<std::string>> rows = {{"protection", "days", "test AUC", "log-loss"}};
  for (const auto& [layer, attack] : keys) {
    rows[0].push_back(absl::StrCat(layer, " ", attack));
  }
  std::vector<std::string> protections;
  for (const StreamedDay& day : days) {
    if (std::find(protections.begin(), protections.end(), day.protection) == protections.end()) {
      protections.push_back(day.protection);
    }
  }
  for (const std::string& protection : protections) {
    const auto count =
        std::count_if(days.begin(), days.end(), [&](const StreamedDay& day) { return day.protection == protection; });
    std::vector<std::string>& row = rows.emplace_back();
    row = {protection, absl::StrCat(count),
           FixedCell(MeanOf(days, protection, [](const RunFigures& day) { return day.best_test_auc; }), 4),
           FixedCell(MeanOf(days, protection, [](const RunFigures& day) { return day.test_log_loss; }), 4)};
    for (const auto& [layer, attack] : keys) {
      const auto mean = [&, layer = layer, attack = attack](const RunFigures& day) {
        return LeakOf(day, layer, attack).mean;
      };
      row.push_back(FixedCell(MeanOf(days, protection, mean), 3));
    }
  }
  return AlignedTable(rows);
}

}  // namespace splitveil
