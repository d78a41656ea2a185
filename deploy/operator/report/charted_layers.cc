#include "deploy/operator/report/charted_layers.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/figures/attack_catalogue.h"
#include "common/figures/run_figures.h"

namespace splitveil {
namespace {

constexpr size_t kChartedLayers = 4, kChartedAttacksOfOneRun = 4, kChartedAttacksOfSeveral = 2;

bool IsBeyondBound(const AttackLeak& leak) {
  return std::any_of(leak.epochs.begin(), leak.epochs.end(),
                     [](const EpochLeakRow* row) { return ExceedsBound(*row); });
}

}  // namespace

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
    if (charted.size() == kChartedLayers) {
      break;
    }
  }
  return charted;
}

}  // namespace splitveil
