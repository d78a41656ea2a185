#include "deploy/sweep/sweep_table.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace splitveil {
namespace {

constexpr size_t kSummaryLeaks = 4;

// A cell that may hold commas or quotes (RFC 4180).
std::string Quoted(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == text.npos) {
    return text;
  }
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

std::string Cell(double value) { return std::isfinite(value) ? absl::StrFormat("%.9g", value) : ""; }

LeakPoint LeakOf(const RunFigures& figures, const std::pair<std::string, std::string>& key) {
  for (const LeakPoint& leak : figures.leaks) {
    if (leak.layer == key.first && leak.attack == key.second) {
      return leak;
    }
  }
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  return {key.first, key.second, kNone, kNone};
}

std::string Fixed(double value, int digits) {
  return std::isfinite(value) ? absl::StrFormat("%.*f", digits, value) : "-";
}

// Columns as wide as their widest cell; the first one flush left, numbers flush right.
std::string Aligned(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths(rows.front().size());
  for (const std::vector<std::string>& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  std::string text;
  for (const std::vector<std::string>& row : rows) {
    absl::StrAppend(&text, row[0], std::string(widths[0] - row[0].size(), ' '));
    for (size_t i = 1; i < row.size(); ++i) {
      absl::StrAppend(&text, "  ", std::string(widths[i] - row[i].size(), ' '), row[i]);
    }
    absl::StrAppend(&text, "\n");
  }
  return text;
}

}  // namespace

std::string SweepCsv(const std::vector<SweptRun>& runs) {
  const auto keys = LayersAndAttacks(runs);
  std::vector<std::string> cells = {"run",           "protection",     "parameter",     "seed",
                                    "best_test_auc", "final_test_auc", "test_log_loss", "steps"};
  for (const auto& [layer, attack] : keys) {
    cells.push_back(Quoted(absl::StrCat(layer, "_", attack, "_mean")));
    cells.push_back(Quoted(absl::StrCat(layer, "_", attack, "_p95")));
  }
  cells.insert(cells.end(), {"remembered_auc", "auc_bound_p95", "sum_kl_mean", "seconds"});
  std::string csv = absl::StrJoin(cells, ",") + "\n";
  for (const SweptRun& swept : runs) {
    const RunFigures& figures = swept.figures;
    const SweepProtection& protection = swept.run.protection;
    cells = {Quoted(swept.run.name),
             protection.family,
             protection.parameter ? Cell(*protection.parameter) : "",
             absl::StrCat(swept.run.seed),
             Cell(figures.best_test_auc),
             Cell(figures.final_test_auc),
             Cell(figures.test_log_loss),
             absl::StrCat(figures.steps)};
    for (const auto& key : keys) {
      const LeakPoint leak = LeakOf(figures, key);
      cells.insert(cells.end(), {Cell(leak.mean), Cell(leak.p95)});
    }
    cells.insert(cells.end(), {Cell(figures.remembered_auc), Cell(figures.auc_bound_p95), Cell(figures.sum_kl_mean),
                               Cell(figures.seconds)});
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
    row = {point.name, absl::StrCat(point.seeds), Fixed(point.best_test_auc.mean, 4),
           Fixed(point.test_log_loss.mean, 4)};
    for (size_t i = 0; i < keys.size(); ++i) {
      row.push_back(Fixed(point.leaks[i].p95.mean, 3));
    }
    row.insert(row.end(), {Fixed(point.remembered_auc.mean, 3), Fixed(point.seconds.mean, 0)});
  }
  return Aligned(rows);
}

}  // namespace splitveil
