#include "deploy/operator/sweep/tradeoff.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace splitveil {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

using LayerAndAttack = std::pair<std::string, std::string>;

// 0 and 1 are those of the papers' figures; `first_layer`: the bottom model's.
int LayerRank(const std::string& layer, const std::string& first_layer) {
  return layer == "cut" ? 0 : layer == first_layer ? 1 : 2;
}
int AttackRank(const std::string& attack) { return attack == "norm" ? 0 : attack == "cosine" ? 1 : 2; }

Spread SpreadOfField(const std::vector<const SweptRun*>& runs, double RunFigures::*field) {
  std::vector<double> values(runs.size());
  for (size_t i = 0; i < runs.size(); ++i) {
    values[i] = runs[i]->figures.*field;
  }
  return SpreadOf(values);
}

LeakSpread SpreadOfLeak(const std::vector<const SweptRun*>& runs, const LayerAndAttack& key) {
  std::vector<double> means, p95s;
  for (const SweptRun* run : runs) {
    for (const LeakPoint& leak : run->figures.leaks) {
      if (leak.layer == key.first && leak.attack == key.second) {
        means.push_back(0.5 + std::abs(leak.mean - 0.5));
        p95s.push_back(leak.p95);
      }
    }
  }
  return {key.first, key.second, SpreadOf(means), SpreadOf(p95s)};
}

TradeoffPoint Summarize(const std::vector<const SweptRun*>& runs, const std::vector<LayerAndAttack>& keys) {
  const SweepProtection& protection = runs.front()->run.protection;
  TradeoffPoint point;
  point.name = protection.name;
  point.family = protection.family;
  point.parameter = protection.parameter;
  point.seeds = static_cast<int>(runs.size());
  point.best_test_auc = SpreadOfField(runs, &RunFigures::best_test_auc);
  point.final_test_auc = SpreadOfField(runs, &RunFigures::final_test_auc);
  point.test_log_loss = SpreadOfField(runs, &RunFigures::test_log_loss);
  point.run_auc_bound = SpreadOfField(runs, &RunFigures::run_auc_bound);
  point.auc_bound_p95 = SpreadOfField(runs, &RunFigures::auc_bound_p95);
  point.sum_kl_mean = SpreadOfField(runs, &RunFigures::sum_kl_mean);
  point.seconds = SpreadOfField(runs, &RunFigures::seconds);
  for (const LayerAndAttack& key : keys) {
    point.leaks.push_back(SpreadOfLeak(runs, key));
  }
  return point;
}

bool IsFinite(const Tradeoff& choice) { return std::isfinite(choice.leak) && std::isfinite(choice.cost); }

}  // namespace

Spread SpreadOf(const std::vector<double>& values) {
  Spread spread{kNone, kNone, kNone};
  double sum = 0;
  int count = 0;
  for (const double value : values) {
    if (std::isfinite(value)) {
      spread.min = count == 0 ? value : std::min(spread.min, value);
      spread.max = count == 0 ? value : std::max(spread.max, value);
      sum += value;
      ++count;
    }
  }
  if (count > 0) {
    // Rounding must not put the mean of equal values outside them.
    spread.mean = std::clamp(sum / count, spread.min, spread.max);
  }
  return spread;
}

std::vector<LayerAndAttack> LayersAndAttacks(const std::vector<SweptRun>& runs) {
  std::vector<LayerAndAttack> keys;
  for (const SweptRun& run : runs) {
    for (const LeakPoint& leak : run.figures.leaks) {
      const LayerAndAttack key(leak.layer, leak.attack);
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
        keys.push_back(key);
      }
    }
  }
  // A preset and a TorchScript half list no layers; all presets call theirs the same.
  const bool listed = !runs.empty() && runs.front().run.nonlabel_config.model().layers_size() > 0;
  const std::string first_layer = listed ? runs.front().run.nonlabel_config.model().layers(0).name() : "first";
  const auto rank = [&](const LayerAndAttack& key) {
    const int layer = LayerRank(key.first, first_layer), attack = AttackRank(key.second);
    return std::make_tuple(layer == 2 || attack == 2, layer, attack);
  };
  std::stable_sort(keys.begin(), keys.end(),
                   [&](const LayerAndAttack& a, const LayerAndAttack& b) { return rank(a) < rank(b); });
  return keys;
}

std::vector<TradeoffPoint> SummarizeSeeds(const std::vector<SweptRun>& runs) {
  std::vector<std::string> names;
  std::map<std::string, std::vector<const SweptRun*>> by_name;
  for (const SweptRun& run : runs) {
    std::vector<const SweptRun*>& same = by_name[run.run.protection.name];
    if (same.empty()) {
      names.push_back(run.run.protection.name);
    }
    same.push_back(&run);
  }
  const std::vector<LayerAndAttack> keys = LayersAndAttacks(runs);
  std::vector<TradeoffPoint> points;
  points.reserve(names.size());
  for (const std::string& name : names) {
    points.push_back(Summarize(by_name[name], keys));
  }
  return points;
}

std::vector<bool> ParetoFront(const std::vector<Tradeoff>& choices) {
  std::vector<bool> on_front(choices.size());
  for (size_t i = 0; i < choices.size(); ++i) {
    const Tradeoff& own = choices[i];
    const auto beats_own = [&own](const Tradeoff& other) {
      return IsFinite(other) && other.leak <= own.leak && other.cost <= own.cost &&
             (other.leak < own.leak || other.cost < own.cost);
    };
    on_front[i] = IsFinite(own) && std::none_of(choices.begin(), choices.end(), beats_own);
  }
  return on_front;
}

}  // namespace splitveil
