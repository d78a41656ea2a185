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
  leaks.push_back({layer, attack, observer, nullptr, {}});
  return leaks.back();
}

}  // namespace

MeasuredAttack AttackLeak::figures() const {
  MeasuredAttack figures = {layer, attack, has_batches() ? series->summary : LeakSummary()};
  if (!epochs.empty()) {
    figures.pooled_auc = epochs.back()->auc;
  }
  return figures;
}

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
  std::stable_sort(leaks.begin(), leaks.end(), [](const AttackLeak& a, const AttackLeak& b) {
    const MeasuredAttack first = a.figures(), second = b.figures();
    return IsStronger(first, second) || (!IsStronger(second, first) && a.observer < b.observer);
  });
  std::set<std::pair<std::string, std::string>> seen;  // Layer and attack.
  std::stable_partition(leaks.begin(), leaks.end(),
                        [&](const AttackLeak& leak) { return seen.emplace(leak.layer, leak.attack).second; });
  return leaks;
}

std::vector<AttackLeak> BatchLeaks(const RunRecords& run) {
  std::vector<AttackLeak> leaks;
  std::set<std::pair<std::string, std::string>> seen;  // Layer and attack.
  for (AttackLeak& leak : AttackLeaks(run)) {
    if (leak.has_batches() && seen.emplace(leak.layer, leak.attack).second) {
      leaks.push_back(std::move(leak));
    }
  }
  return leaks;
}

}  // namespace splitveil
