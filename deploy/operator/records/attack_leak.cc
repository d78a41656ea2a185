#include "deploy/operator/records/attack_leak.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/leakage/attack_traits.h"

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

// Figures that differ by rounding alone are the same.
double AsPrinted(double auc) { return std::round(1e6 * auc) / 1e6; }

}  // namespace

double TurnedAuc(double auc) { return 0.5 + std::abs(auc - 0.5); }

double AttackLeak::measured_auc() const {
  return std::max(has_batches() ? series->summary.p95 : 0, epochs.empty() ? 0 : TurnedAuc(epochs.back()->auc));
}

double AttackLeak::typical_auc() const {
  if (!epochs.empty()) {
    return TurnedAuc(epochs.back()->auc);
  }
  return has_batches() ? TurnedAuc(series->summary.mean) : 0;
}

bool UsesGivenLabels(const std::string& attack) { return attack == "model_completion" || attack == "features_only"; }

AttackNeeds NeedsOf(const std::string& attack) {
  const std::optional<AttackVariant> known = AttackOfName(attack);
  if (!known.has_value()) {
    return UsesGivenLabels(attack) ? AttackNeeds::kGivenLabels : AttackNeeds::kUnknown;
  }
  switch (TraitsOf(known->attack).needs) {
    case SideInformation::kNone:
    case SideInformation::kActivations:
      return AttackNeeds::kNothing;
    case SideInformation::kCleanPositive:
    case SideInformation::kHintRows:
      return AttackNeeds::kKnownPositives;
    case SideInformation::kAuxiliaryLabels:
      return AttackNeeds::kGivenLabels;
    default:
      return AttackNeeds::kTrueClasses;
  }
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
  const auto key = [](const AttackLeak& leak) {
    return std::make_tuple(UsesGivenLabels(leak.attack), -AsPrinted(leak.measured_auc()),
                           -AsPrinted(leak.typical_auc()), NeedsOf(leak.attack), leak.layer != "cut", leak.layer,
                           leak.attack, leak.observer);
  };
  std::sort(leaks.begin(), leaks.end(), [&](const AttackLeak& a, const AttackLeak& b) { return key(a) < key(b); });
  std::set<std::pair<std::string, std::string>> seen;  // Layer and attack.
  std::stable_partition(leaks.begin(), leaks.end(),
                        [&](const AttackLeak& leak) { return seen.emplace(leak.layer, leak.attack).second; });
  return leaks;
}

}  // namespace splitveil
