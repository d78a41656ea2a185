#include "deploy/operator/report/attack_leak.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace splitveil {
namespace {

constexpr size_t kChartedLayers = 4, kChartedAttacksOfOneRun = 5, kChartedAttacksOfSeveral = 2;

constexpr char kAdversary[] = "nonlabel_party";

double Turned(double auc) { return std::max(auc, 1 - auc); }

AttackLeak& Entry(std::vector<AttackLeak>& leaks, const std::string& layer, const std::string& attack,
                  const std::string& observer) {
  const auto found = std::find_if(leaks.begin(), leaks.end(), [&](const AttackLeak& leak) {
    return leak.layer == layer && leak.attack == attack && leak.observer == observer;
  });
  if (found != leaks.end()) {
    return *found;
  }
  leaks.push_back({layer, attack, observer, nullptr, {}});
  return leaks.back();
}

bool IsBeyondBound(const AttackLeak& leak) {
  return std::any_of(leak.epochs.begin(), leak.epochs.end(),
                     [](const EpochLeakRow* row) { return ExceedsBound(*row); });
}

}  // namespace

double AttackLeak::strength() const {
  if (!epochs.empty()) {
    return Turned(epochs.back()->auc);
  }
  return has_batches() ? Turned(series->summary.mean) : 0;
}

double AttackLeak::exposure() const {
  return std::max(has_batches() ? series->summary.p95 : 0, epochs.empty() ? 0 : Turned(epochs.back()->auc));
}

bool UsesGivenLabels(const std::string& attack) { return attack == "model_completion" || attack == "features_only"; }

std::vector<AttackLeak> AttackLeaks(const RunRecords& run) {
  std::vector<AttackLeak> leaks;
  for (const LeakSeries* series : run.leaks()) {
    Entry(leaks, series->layer, series->attack, series->observer).series = series;
  }
  for (const EpochLeakRow& row : run.epoch_leaks()) {
    if (std::isfinite(row.auc)) {
      Entry(leaks, row.layer, row.attack, row.observer).epochs.push_back(&row);
    }
  }
  std::set<std::pair<std::string, std::string>> by_adversary;  // Layer and attack.
  for (const AttackLeak& leak : leaks) {
    if (leak.observer == kAdversary) {
      by_adversary.emplace(leak.layer, leak.attack);
    }
  }
  const auto key = [&](const AttackLeak& leak) {
    const bool repeats = leak.observer != kAdversary && by_adversary.count({leak.layer, leak.attack}) > 0;
    return std::make_tuple(leak.layer != "cut", leak.layer, UsesGivenLabels(leak.attack) || repeats, -leak.strength(),
                           leak.attack, leak.observer);
  };
  std::sort(leaks.begin(), leaks.end(), [&](const AttackLeak& a, const AttackLeak& b) { return key(a) < key(b); });
  return leaks;
}

std::vector<ChartedLayer> ChooseCharts(const std::vector<std::vector<AttackLeak>>& runs) {
  struct Rank {
    double sum = 0;
    bool beyond = false;
  };
  std::map<std::pair<bool, std::string>, std::map<std::string, Rank>> ranks;  // Not the cut, layer; attack.
  for (const std::vector<AttackLeak>& leaks : runs) {
    std::map<std::pair<std::string, std::string>, double> strongest;  // Whoever scored it.
    for (const AttackLeak& leak : leaks) {
      if (leak.has_batches()) {
        double& strength = strongest[{leak.layer, leak.attack}];
        strength = std::max(strength, leak.strength());
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
    std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
      return std::make_pair(a.second.beyond, a.second.sum) > std::make_pair(b.second.beyond, b.second.sum);
    });
    ChartedLayer chosen = {layer.second, {}};
    for (size_t i = 0; i < std::min(limit, sorted.size()); ++i) {
      chosen.attacks.push_back(sorted[i].first);
    }
    charted.push_back(std::move(chosen));
    if (charted.size() == kChartedLayers) {
      break;
    }
  }
  return charted;
}

}  // namespace splitveil
