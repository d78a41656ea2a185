#include "common/operations/run_summary.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <iterator>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

#include "common/leakage/summary.h"

namespace splitveil {
namespace {

constexpr int kAttacksShown = 3;  // Per layer.

// "1.2 MB": decimal, as disks and networks count.
std::string Bytes(int64_t bytes) {
  const char* const units[] = {"B", "kB", "MB", "GB", "TB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 999.5 && unit + 1 < std::size(units); ++unit) {
    value /= 1000;
  }
  return unit == 0 ? absl::StrFormat("%.0f %s", value, units[unit]) : absl::StrFormat("%.3g %s", value, units[unit]);
}

class Table {
 public:
  explicit Table(std::string headline) : text_(std::move(headline)) { text_ += '\n'; }

  void Add(const std::string& name, const std::string& figures) {
    absl::StrAppendFormat(&text_, "  %-16s%s\n", name, figures);
  }
  std::string text() const { return text_; }

 private:
  std::string text_;
};

std::string Training(const RunSummary& summary) {
  std::string text =
      absl::StrCat(summary.epochs, " epochs, ", summary.steps, " steps, ", summary.examples, " examples");
  if (summary.seconds > 0) {
    absl::StrAppendFormat(&text, " in %.1f s (%.0f per second)", summary.seconds,
                          static_cast<double>(summary.examples) / summary.seconds);
  }
  return text;
}

std::string TestAuc(const RunSummary& summary) {
  std::string text = absl::StrFormat("%.4f", summary.test_auc);
  if (summary.best_epoch > 0) {
    absl::StrAppendFormat(&text, " (best, after epoch %d; last %.4f)", summary.best_epoch, summary.final_test_auc);
  }
  return text;
}

// A line for each layer: the strongest attacks, and how many there are besides.
void AddLeaks(const std::vector<LeakFigure>& leaks, Table& table) {
  for (auto layer = leaks.begin(); layer != leaks.end();) {
    const auto end =
        std::find_if(layer, leaks.end(), [&](const LeakFigure& leak) { return leak.layer != layer->layer; });
    const auto shown = std::min<std::ptrdiff_t>(kAttacksShown, end - layer);
    std::string text = absl::StrJoin(layer, layer + shown, ", ", [](std::string* out, const LeakFigure& leak) {
      absl::StrAppendFormat(out, "%s %.3f", leak.attack, leak.p95);
    });
    if (end - layer > shown) {
      absl::StrAppend(&text, "; ", end - layer - shown, " weaker");
    }
    table.Add(absl::StrCat("leak at ", layer->layer), absl::StrCat(text, "  (AUC, 95% of batches below)"));
    layer = end;
  }
}

std::string Bound(const RunSummary& summary) {
  std::string text =
      absl::StrFormat("AUC at most %.3f from all releases of the run, for Gaussian classes", summary.run_auc_bound);
  if (summary.run_auc_bound >= 1) {
    text = "none: these releases bound no attack";
  } else if (summary.bound_exceeded > 0) {
    absl::StrAppend(&text, "; DOES NOT HOLD: an attack measurably exceeded it over an epoch, ", summary.bound_exceeded,
                    summary.bound_exceeded == 1 ? " time" : " times");
  }
  return text;
}

}  // namespace

std::vector<LeakFigure> StrongestFirst(
    const std::map<std::pair<std::string, std::string>, std::vector<double>>& series) {
  std::vector<LeakFigure> figures;
  for (const auto& [key, aucs] : series) {
    const LeakSummary summary = SummarizeLeak(aucs);
    figures.push_back({key.first, key.second, 0.5 + std::abs(summary.mean - 0.5), summary.mean_ci95, summary.p95});
  }
  std::stable_sort(figures.begin(), figures.end(), [](const LeakFigure& a, const LeakFigure& b) {
    return std::tie(a.layer, b.p95, b.mean) < std::tie(b.layer, a.p95, a.mean);
  });
  return figures;
}

std::string ResultPath(const std::string& ledger_path) {
  return absl::StrCat(absl::StripSuffix(ledger_path, ".db"), ".result.json");
}

std::string RunSummaryTable(const RunSummary& summary) {
  Table table(absl::StrCat("run ", summary.run_id, " ", summary.ended, " at the ", summary.party));
  if (!summary.protection.empty()) {
    table.Add("protection", summary.protection);
  }
  table.Add("training", Training(summary));
  if (!std::isnan(summary.test_auc)) {
    table.Add("test AUC", TestAuc(summary));
  }
  if (!std::isnan(summary.test_log_loss)) {
    table.Add("test log loss", absl::StrFormat("%.4f", summary.test_log_loss));
  }
  AddLeaks(summary.leaks, table);
  if (!std::isnan(summary.run_auc_bound)) {
    table.Add("bound", Bound(summary));
  }
  if (!summary.gate.empty()) {
    table.Add("release gate", absl::StrJoin(summary.gate, ", ", [](std::string* out, const auto& decision) {
                absl::StrAppend(out, decision.second, " ", decision.first);
              }));
  }
  table.Add("bytes", absl::StrCat(Bytes(summary.bytes_sent), " sent, ", Bytes(summary.bytes_received), " received"));
  if (!summary.details.empty()) {
    table.Add("all figures", summary.details);
  }
  return table.text();
}

void PrintRunSummary(const RunSummary& summary) { std::cerr << RunSummaryTable(summary) << std::flush; }

}  // namespace splitveil
