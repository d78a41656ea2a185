#include "deploy/operator/stream/stream_table.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "deploy/operator/local_run/figures_table.h"

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

// Over the days that have the figure; NaN where none has.
double MeanOf(const std::vector<const StreamedDay*>& days, const std::function<double(const RunFigures&)>& figure) {
  double sum = 0;
  int64_t count = 0;
  for (const StreamedDay* day : days) {
    const double value = figure(day->figures);
    if (std::isfinite(value)) {
      sum += value;
      ++count;
    }
  }
  return count > 0 ? sum / static_cast<double>(count) : std::numeric_limits<double>::quiet_NaN();
}

// A day below 0.5 counts as its mirror image: an adversary would turn the attack round.
double MeanLeak(const std::vector<const StreamedDay*>& days, const LayerAndAttack& key) {
  return MeanOf(days,
                [&](const RunFigures& day) { return 0.5 + std::abs(LeakOf(day, key.first, key.second).mean - 0.5); });
}

// Ordered as the report has them, so that what reads most is seen: the cut layer first, in a layer the attack that is
// strongest over all days and protections.
std::vector<LayerAndAttack> StrongestFirst(const std::vector<StreamedDay>& days) {
  std::vector<const StreamedDay*> all;
  for (const StreamedDay& day : days) {
    all.push_back(&day);
  }
  std::vector<std::tuple<bool, std::string, double, std::string>> ranks;
  for (const auto& [layer, attack] : LayersAndAttacks(days)) {
    const double leak = MeanLeak(all, {layer, attack});
    ranks.emplace_back(layer != "cut", layer, std::isfinite(leak) ? -leak : 0, attack);
  }
  std::sort(ranks.begin(), ranks.end());
  std::vector<LayerAndAttack> keys;
  for (const auto& [is_earlier, layer, strength, attack] : ranks) {
    keys.emplace_back(layer, attack);
  }
  return keys;
}

}  // namespace

std::string StreamCsv(const std::vector<StreamedDay>& days) {
  const std::vector<LayerAndAttack> keys = LayersAndAttacks(days);
  std::vector<std::string> cells = {"day", "protection", "test_auc", "log_loss"};
  for (const auto& [layer, attack] : keys) {
    cells.push_back(CsvCell(absl::StrCat(layer, "_", attack, "_mean")));
  }
  cells.insert(cells.end(), {"run_auc_bound", "sum_kl_mean", "seconds"});
  std::string csv = absl::StrJoin(cells, ",") + "\n";
  for (const StreamedDay& day : days) {
    const RunFigures& figures = day.figures;
    cells = {CsvCell(day.day), CsvCell(day.protection), CsvCell(figures.best_test_auc), CsvCell(figures.test_log_loss)};
    for (const auto& [layer, attack] : keys) {
      cells.push_back(CsvCell(LeakOf(figures, layer, attack).mean));
    }
    cells.insert(cells.end(), {CsvCell(figures.run_auc_bound), CsvCell(figures.sum_kl_mean), CsvCell(figures.seconds)});
    absl::StrAppend(&csv, absl::StrJoin(cells, ","), "\n");
  }
  return csv;
}

std::string StreamSummary(const std::vector<StreamedDay>& days) {
  std::vector<LayerAndAttack> keys = StrongestFirst(days);
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
    std::vector<const StreamedDay*> own_days;
    for (const StreamedDay& day : days) {
      if (day.protection == protection) {
        own_days.push_back(&day);
      }
    }
    std::vector<std::string>& row = rows.emplace_back();
    row = {protection, absl::StrCat(own_days.size()),
           FixedCell(MeanOf(own_days, [](const RunFigures& day) { return day.best_test_auc; }), 4),
           FixedCell(MeanOf(own_days, [](const RunFigures& day) { return day.test_log_loss; }), 4)};
    for (const LayerAndAttack& key : keys) {
      row.push_back(FixedCell(MeanLeak(own_days, key), 3));
    }
  }
  return AlignedTable(rows);
}

}  // namespace splitveil
