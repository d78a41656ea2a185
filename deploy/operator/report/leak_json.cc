#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "deploy/operator/report/report_sections.h"
#include "deploy/operator/report/report_text.h"

#include "common/figures/attack_catalogue.h"
#include "common/figures/figure_words.h"
#include "common/figures/json_number.h"
#include "common/figures/run_figures.h"

namespace splitveil {
namespace {

constexpr size_t kChartedLayers = 4, kChartedAttacksOfOneRun = 4, kChartedAttacksOfSeveral = 2;

bool IsBeyondBound(const AttackLeak& leak) {
  return std::any_of(leak.epochs.begin(), leak.epochs.end(),
                     [](const EpochLeakRow* row) { return ExceedsBound(*row); });
}

// Every batch as the summary counts it.
Json LeakCurve(const LeakSeries& series) {
  std::vector<double> inverted;
  inverted.reserve(series.aucs.size());
  for (double auc : series.aucs) {
    inverted.push_back(InvertedAuc(auc));
  }
  return CurveJson(series.steps, inverted);
}

Json Interval(double value, double low, double high) {
  return Json::array({NumberJson(value), NumberJson(low), NumberJson(high)});
}

// The AUC as an adversary would invert it; the interval is inverted with it.
Json InvertedInterval(const EpochLeakRow& row) {
  return row.auc < 0.5 ? Interval(1 - row.auc, 1 - row.auc_high, 1 - row.auc_low)
                       : Interval(row.auc, row.auc_low, row.auc_high);
}

// [mean, low, high] over the batches.
Json MeanJson(const LeakSummary& summary) {
  return Interval(summary.mean, std::max(0.5, summary.mean - summary.mean_ci95),
                  std::min(1.0, summary.mean + summary.mean_ci95));
}

// An attack of a ranking; null where none was measured.
Json RankedJson(const AttackFigure* attack) {
  return attack != nullptr ? Json{{"title", AttackTitle(attack->attack)},
                                  {"auc", NumberJson(attack->auc())},
                                  {"exposure", ExposureName(ExposureOf(attack->auc()))}}
                           : Json();
}

Json PooledJson(const EpochLeakRow& row) {
  return {{"epoch", row.epoch + 1},
          {"examples", row.examples},
          {"positives", row.positives},
          {"auc", InvertedInterval(row)},
          {"tpr_1pct", Interval(row.tpr_1pct, row.tpr_1pct_low, row.tpr_1pct_high)},
          {"tpr_01pct", Interval(row.tpr_01pct, row.tpr_01pct_low, row.tpr_01pct_high)},
          {"bound", NumberJson(row.gaussian_auc_bound)}};
}

bool IsCharted(const AttackLeak& leak, const std::vector<ChartedLayer>& charted) {
  return leak.has_batches() && std::any_of(charted.begin(), charted.end(), [&](const ChartedLayer& layer) {
           return layer.layer == leak.layer &&
                  std::find(layer.attacks.begin(), layer.attacks.end(), leak.attack) != layer.attacks.end();
         });
}

// [last step of the epoch, AUC, bound] of every epoch in which the attack exceeds it.
Json BeyondBound(const AttackLeak& leak, const std::map<int64_t, int64_t>& last_step_of_epoch) {
  Json beyond = Json::array();
  for (const EpochLeakRow* row : leak.epochs) {
    const auto step = last_step_of_epoch.find(row->epoch);
    if (ExceedsBound(*row) && step != last_step_of_epoch.end()) {
      beyond.push_back(
          Json::array({step->second, NumberJson(InvertedAuc(row->auc)), NumberJson(row->gaussian_auc_bound)}));
    }
  }
  return beyond;
}

}  // namespace

std::vector<ChartedLayer> ChooseCharts(const std::vector<std::vector<AttackLeak>>& runs) {
  struct Rank {
    double sum = 0;
    bool beyond = false;
  };
  std::map<std::pair<bool, std::string>, std::map<std::string, Rank>> ranks;  // Not the cut, layer; attack.
  for (const std::vector<AttackLeak>& leaks : runs) {
    std::map<std::pair<std::string, std::string>, double> strongest;  // Of either observer.
    for (const AttackLeak& leak : leaks) {
      // Only series over the batches can be drawn; figures over an epoch have a chart of their own.
      if (leak.has_batches()) {
        double& strength = strongest[{leak.layer, leak.attack}];
        strength = std::max(strength, leak.auc());
        ranks[{leak.layer != "cut", leak.layer}][leak.attack].beyond |= IsBeyondBound(leak);
      }
    }
    for (const auto& [place, strength] : strongest) {
      ranks[{place.first != "cut", place.first}][place.second].sum += strength;
    }
  }
  const size_t limit = runs.size() == 1 ? kChartedAttacksOfOneRun : kChartedAttacksOfSeveral;
  std::vector<ChartedLayer> charted;
  for (const auto& [layer, attacks] : ranks) {
    std::vector<std::pair<std::string, Rank>> sorted(attacks.begin(), attacks.end());
    const auto rank = [](const auto& attack) {
      return std::make_tuple(attack.second.beyond, ReadsGradients(attack.first), attack.second.sum);
    };
    std::stable_sort(sorted.begin(), sorted.end(), [&](const auto& a, const auto& b) { return rank(a) > rank(b); });
    ChartedLayer chosen = {layer.second, {}};
    for (size_t i = 0; i < std::min(limit, sorted.size()); ++i) {
      chosen.attacks.push_back(sorted[i].first);
    }
    charted.push_back(std::move(chosen));
    // More charts than these nobody compares at a glance; the tables have all layers.
    if (charted.size() == kChartedLayers) {
      break;
    }
  }
  return charted;
}

Json LeaksJson(const std::vector<AttackLeak>& leaks, const LedgerRun& run, const std::vector<ChartedLayer>& charted,
               const AttackFigure* baseline) {
  std::map<int64_t, int64_t> last_step_of_epoch;
  for (const StepRow& row : run.steps()) {
    last_step_of_epoch[row.epoch] = row.step;
  }
  Json all = Json::array();
  for (const AttackLeak& leak : leaks) {
    const bool batches = leak.has_batches();
    Json entry = {{"layer", leak.layer},
                  {"layer_name", DescribeLayer(leak.layer)},
                  {"attack", leak.attack},
                  {"title", AttackTitle(leak.attack)},
                  {"observer", leak.observer},
                  {"needs", DescribeNeeds(leak.attack)},
                  {"reads_gradients", ReadsGradients(leak.attack)},
                  {"auc", leak.auc() > 0 ? NumberJson(leak.auc()) : Json()},
                  {"exposure", leak.auc() > 0 ? ExposureName(ExposureOf(leak.auc())) : ""},
                  {"mean", batches ? MeanJson(leak.batches) : Json()},
                  {"p95", batches ? NumberJson(leak.batches.p95) : Json()},
                  {"steps", leak.batches.steps},
                  {"pooled", leak.epochs.empty() ? Json() : PooledJson(*leak.epochs.back())},
                  {"beyond", BeyondBound(leak, last_step_of_epoch)}};
    // What the features tell without any gradient is no leak of the training.
    if (leak.auc() > 0 && baseline != nullptr && leak.attack != baseline->attack) {
      entry["advantage"] = NumberJson(leak.auc() - baseline->auc());
    }
    if (IsCharted(leak, charted)) {
      entry["curve"] = LeakCurve(*leak.series);
    }
    all.push_back(std::move(entry));
  }
  return all;
}

Json CumulativeJson(const std::vector<AttackLeak>& leaks) {
  Json attacks = Json::array();
  std::map<int64_t, const EpochLeakRow*> bounded;  // By epoch: the row with the accountant's figures.
  std::set<std::string> drawn;
  for (const AttackLeak& leak : leaks) {
    if (leak.layer != "cut" || !absl::StartsWith(leak.attack, "cumulative_") || leak.epochs.empty() ||
        !drawn.insert(leak.attack).second) {  // Both observers scored the same bytes.
      continue;
    }
    Json epochs = Json::array();
    for (const EpochLeakRow* row : leak.epochs) {
      Json point = InvertedInterval(*row);
      point.insert(point.begin(), row->epoch + 1);
      point.push_back(ExceedsBound(*row));
      epochs.push_back(std::move(point));
      if (std::isfinite(row->auc_bound)) {
        bounded.emplace(row->epoch, row);
      }
    }
    const bool bounded = std::any_of(leak.epochs.begin(), leak.epochs.end(),
                                     [](const EpochLeakRow* row) { return std::isfinite(row->gaussian_auc_bound); });
    attacks.push_back({{"attack", leak.attack},
                       {"title", AttackTitle(leak.attack)},
                       {"bounded", bounded},
                       {"epochs", std::move(epochs)}});
  }
  if (attacks.empty()) {
    return Json();
  }
  Json gaussian = Json::array(), bound = Json::array();
  for (const auto& [epoch, row] : bounded) {
    gaussian.push_back(Json::array({epoch + 1, NumberJson(row->gaussian_auc_bound)}));
    bound.push_back(Json::array({epoch + 1, NumberJson(row->auc_bound)}));
  }
  return {{"attacks", std::move(attacks)}, {"gaussian", std::move(gaussian)}, {"bound", std::move(bound)}};
}

Json GlossaryJson(const std::vector<std::vector<AttackLeak>>& runs) {
  std::map<std::string, std::string> names;  // By title.
  for (const std::vector<AttackLeak>& leaks : runs) {
    for (const AttackLeak& leak : leaks) {
      names.emplace(AttackTitle(leak.attack), leak.attack);
    }
  }
  Json glossary = Json::array();
  for (const auto& [title, attack] : names) {
    glossary.push_back({{"attack", attack}, {"title", title}, {"explanation", AttackExplanation(attack)}});
  }
  return glossary;
}

Json RankingJson(const RunFigures& figures) {
  const Guessing guessing = figures.guessing.value_or(Guessing());
  const std::string kind = BoundKindName(figures);
  return {{"strongest", RankedJson(figures.strongest())},
          {"guessing", NumberJson(guessing.p95)},
          {"guessing_mean", NumberJson(guessing.mean)},
          {"bound", BoundStateName(figures.bound())},
          {"bound_words", BoundStateWords(figures)},
          {"bound_kind", kind == "none" ? "–" : kind},
          {"proved", figures.is_proved()},
          {"baseline", RankedJson(figures.baseline())}};
}

Json ChartedJson(const std::vector<ChartedLayer>& charted) {
  Json all = Json::array();
  for (const ChartedLayer& layer : charted) {
    Json attacks = Json::array();
    for (const std::string& attack : layer.attacks) {
      attacks.push_back({{"attack", attack}, {"title", AttackTitle(attack)}});
    }
    all.push_back(
        {{"layer", layer.layer}, {"layer_name", DescribeLayer(layer.layer)}, {"attacks", std::move(attacks)}});
  }
  return all;
}

}  // namespace splitveil
