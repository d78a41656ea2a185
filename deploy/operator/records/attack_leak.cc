#include "deploy/operator/records/attack_leak.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace splitveil {
namespace {

AttackLeak& Entry(std::vector<AttackLeak>& leaks, const std::string& layer, const std::string& attack,
                  const std::string& observer) {
  const auto found = std::find_if(leaks.begin(), leaks.end(), [&](const AttackLeak& leak) {
    return leak.layer == layer && leak.attack == attack && leak.observer == observer;
  });
  if (found != leaks.end()) {
    return *found;
  }
  AttackLeak& added = leaks.emplace_back();
  added.layer = layer;
  added.attack = attack;
  added.observer = observer;
  return added;
}

}  // namespace

std::vector<AttackLeak> AttackLeaks(const LedgerRun& run) {
  std::vector<AttackLeak> leaks;
  for (const LeakSeries* series : run.leaks()) {
    AttackLeak& leak = Entry(leaks, series->layer, series->attack, series->observer);
    leak.series = series;
    leak.batches = series->summary;
  }
  for (const EpochLeakRow& row : run.epoch_leaks()) {
    if (std::isfinite(row.auc)) {
      AttackLeak& leak = Entry(leaks, row.layer, row.attack, row.observer);
      leak.epochs.push_back(&row);
      leak.last_epoch = row;
    }
  }
  std::stable_sort(leaks.begin(), leaks.end(), [](const AttackLeak& a, const AttackLeak& b) {
    return IsStronger(a, b) || (!IsStronger(b, a) && a.observer < b.observer);
  });
  std::set<std::pair<std::string, std::string>> seen;  // Layer and attack.
  std::stable_partition(leaks.begin(), leaks.end(),
                        [&](const AttackLeak& leak) { return seen.emplace(leak.layer, leak.attack).second; });
  return leaks;
}

}  // namespace splitveil
