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
#include "absl/strings/str_cat.h"
#include "deploy/operator/records/ledger_figures.h"
#include "deploy/operator/report/report_sections.h"

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

// What the partner's own attacks reach over all examples; null where none was measured. Less than features alone give
// is no exposure by the training.
Json PooledAttackJson(const RunFigures& figures) {
  const AttackFigure *const attack = figures.practical_pooled(), *const features = figures.baseline();
  if (attack == nullptr) {
    return Json();
  }
  const double auc = attack->pooled().auc;
  const bool by_features = features != nullptr && auc <= features->pooled().auc;
  return {{"title", AttackTitle(attack->attack)},
          {"auc", NumberJson(auc)},
          {"exposure", ExposureName(by_features ? Exposure::kHidden : ExposureOf(auc))}};
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
  for (const EpochStepsRow& row : run.epochs()) {
    last_step_of_epoch[row.epoch] = row.last_step;
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
          {"pooled", PooledAttackJson(figures)},
          {"guessing", NumberJson(guessing.p95)},
          {"guessing_mean", NumberJson(guessing.mean)},
          {"bound", BoundStateName(figures.bound())},
          {"bound_words", BoundStateWords(figures)},
          {"bound_kind", kind == "none" ? "–" : kind},
          {"proved", figures.is_proved()},
          {"beyond_features", AdvantageWords(figures.practical_pooled(), figures)},
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

namespace {

constexpr size_t kMaxLines = 8;  // Colours of the page.

// Empty: none. A run that only predicts is no day of training.
std::string Predecessor(const LedgerRun& run) {
  return run.only_predicts() ? "" : run.parties.front().record.run.resumed_from;
}

// Of the examples as the model met them, else of the epoch that is kept; null where nothing was evaluated.
const EvaluationRow* QualityOf(const LedgerRun& run) {
  for (const EvaluationRow& row : run.evaluations()) {
    // Evaluated before its first step, the model has not seen the day: the honest figure.
    if (row.step == 0 && row.split == "test") {
      return &row;
    }
  }
  return KeptTest(run.evaluations());
}

Json MeanLeak(const std::vector<AttackLeak>& leaks, const std::string& layer, const std::string& attack) {
  for (const AttackLeak& leak : leaks) {
    if (leak.layer == layer && leak.attack == attack && leak.has_batches()) {
      return NumberJson(leak.series->summary.mean);
    }
  }
  return Json();
}

bool IsMeasured(const std::vector<std::vector<AttackLeak>>& runs, const std::string& attack) {
  return std::any_of(runs.begin(), runs.end(), [&](const std::vector<AttackLeak>& leaks) {
    return std::any_of(leaks.begin(), leaks.end(), [&](const AttackLeak& leak) {
      return leak.layer == "cut" && leak.attack == attack && leak.has_batches();
    });
  });
}

// What the page charts of several runs; at the cut before all others the attacks of Figure 4, norm and hint.
std::vector<ChartedLayer> ChooseDayCharts(const std::vector<std::vector<AttackLeak>>& runs) {
  std::vector<ChartedLayer> charted = ChooseCharts(runs);
  if (charted.empty() || charted.front().layer != "cut") {
    return charted;
  }
  std::vector<std::string> attacks;
  for (const char* attack : {"norm", "hint_inner_product_1", "hint_inner_product_5", "hint_inner_product_3"}) {
    if (attacks.size() < 2 && IsMeasured(runs, attack)) {
      attacks.push_back(attack);
    }
  }
  for (const std::string& attack : charted.front().attacks) {
    if (std::find(attacks.begin(), attacks.end(), attack) == attacks.end()) {
      attacks.push_back(attack);
    }
  }
  charted.front().attacks = std::move(attacks);
  return charted;
}

// "marvell(sum_kl=0.1)"; where several chains have one protection, with the run that begins it.
std::string LabelOf(const std::vector<LedgerRun>& runs, const RunChain& chain, const std::vector<RunChain>& chains) {
  const std::string protection = runs[chain.back()].protection();
  const auto same = std::count_if(chains.begin(), chains.end(),
                                  [&](const RunChain& other) { return runs[other.back()].protection() == protection; });
  const std::string label = protection == "none" ? "no protection" : protection;
  return same > 1 || label.empty() ? absl::StrCat(label, label.empty() ? "" : " · ", runs[chain.back()].run_id())
                                   : label;
}

}  // namespace

std::vector<RunChain> FindChains(const std::vector<LedgerRun>& runs) {
  std::map<std::string, size_t> by_id;
  std::set<std::string> continued;
  for (size_t i = 0; i < runs.size(); ++i) {
    by_id.emplace(runs[i].run_id(), i);
    continued.insert(Predecessor(runs[i]));
  }
  std::vector<RunChain> chains;
  for (size_t last = 0; last < runs.size(); ++last) {
    if (continued.count(runs[last].run_id()) > 0) {
      continue;
    }
    RunChain chain = {last};
    // Ledgers may claim what they like, a circle too.
    for (auto before = by_id.find(Predecessor(runs[last])); before != by_id.end() && chain.size() < runs.size();
         before = by_id.find(Predecessor(runs[before->second]))) {
      chain.push_back(before->second);
    }
    if (chain.size() > 1) {
      std::reverse(chain.begin(), chain.end());
      chains.push_back(std::move(chain));
    }
  }
  return chains;
}

std::vector<size_t> RunsInFull(const std::vector<LedgerRun>& runs, const std::vector<RunChain>& chains) {
  std::set<size_t> folded;
  if (runs.size() > kMaxLines) {
    for (const RunChain& chain : chains) {
      folded.insert(chain.begin(), chain.end() - 1);
    }
  }
  std::vector<size_t> full;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (folded.count(i) == 0) {
      full.push_back(i);
    }
  }
  return full;
}

Json ChainsJson(const std::vector<LedgerRun>& runs, const std::vector<std::vector<AttackLeak>>& leaks,
                const std::vector<RunChain>& chains) {
  if (chains.empty()) {
    return Json();
  }
  std::vector<std::vector<AttackLeak>> of_chains;
  for (const RunChain& chain : chains) {
    for (size_t run : chain) {
      of_chains.push_back(leaks[run]);
    }
  }
  const std::vector<ChartedLayer> charted = ChooseDayCharts(of_chains);
  Json all = Json::array();
  for (const RunChain& chain : chains) {
    Json days = Json::array();
    for (size_t run : chain) {
      const EvaluationRow* quality = QualityOf(runs[run]);
      Json means = Json::array();
      for (const ChartedLayer& layer : charted) {
        for (const std::string& attack : layer.attacks) {
          means.push_back(MeanLeak(leaks[run], layer.layer, attack));
        }
      }
      days.push_back({{"id", runs[run].run_id()},
                      {"auc", quality == nullptr ? Json() : NumberJson(quality->auc)},
                      {"log_loss", quality == nullptr ? Json() : NumberJson(quality->log_loss)},
                      {"ranking", RankingJson(FiguresOf(runs[run]))},
                      {"leaks", std::move(means)}});
    }
    all.push_back({{"label", LabelOf(runs, chain, chains)}, {"runs", std::move(days)}});
  }
  return {{"charted", ChartedJson(charted)}, {"chains", std::move(all)}};
}

}  // namespace splitveil
