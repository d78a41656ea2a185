#include "deploy/operator/sweep/tradeoff.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "common/leakage/attack_rank.h"

namespace splitveil {
namespace {

using LayerAndAttack = std::pair<std::string, std::string>;

// How much a state weighs among several seeds.
int BoundRank(BoundState state) {
  switch (state) {
    case BoundState::kNothingLeft:
    case BoundState::kNotExceeded:
      return 0;
    case BoundState::kNotInLedger:
      return 1;
    case BoundState::kNotTested:
      return 2;
    case BoundState::kNoneStated:
      return 3;
    case BoundState::kExceeded:
      break;
  }
  return 4;
}

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
        means.push_back(leak.mean);
        p95s.push_back(leak.p95);
      }
    }
  }
  return {key.first, key.second, SpreadOf(means), SpreadOf(p95s)};
}

// `figure` of each run's ranking.
template <typename Figure>
Spread SpreadOfRanking(const std::vector<const SweptRun*>& runs, Figure figure) {
  std::vector<double> values;
  for (const SweptRun* run : runs) {
    values.push_back(figure(run->ranking));
  }
  return SpreadOf(values);
}

// `kind` of each run's ranking.
template <typename Kind>
RankedSpread SpreadOfKind(const std::vector<const SweptRun*>& runs, Kind kind) {
  RankedSpread spread;
  double most = 0;
  for (const SweptRun* run : runs) {
    const RankedAttack& attack = kind(run->ranking);
    if (attack.is_measured() && attack.auc > most) {
      most = attack.auc;
      spread.layer = attack.layer;
      spread.attack = attack.attack;
    }
  }
  const auto of = [&](double RankedAttack::*figure) {
    return SpreadOfRanking(runs, [&](const RunRanking& ranking) { return kind(ranking).*figure; });
  };
  spread.auc = of(&RankedAttack::auc);
  spread.tpr_1pct = of(&RankedAttack::tpr_1pct);
  spread.tpr_01pct = of(&RankedAttack::tpr_01pct);
  return spread;
}

// Of `reference`, or of all where it is none in particular.
QualitiesBySeed QualitiesOf(const std::vector<const SweptRun*>& runs,
                            std::optional<Reference> reference = std::nullopt) {
  QualitiesBySeed qualities;
  for (const SweptRun* run : runs) {
    if (!reference || run->run.protection.reference == *reference) {
      qualities[run->run.seed] = run->figures.test_quality;
    }
  }
  return qualities;
}

// How much a verdict weighs among several seeds.
int StandingRank(RunStanding standing) {
  switch (standing) {
    case RunStanding::kNothingReleased:
    case RunStanding::kGuaranteed:
      return 0;
    case RunStanding::kUnchecked:
      return 1;
    case RunStanding::kHolds:
      return 2;
    case RunStanding::kUntested:
      return 3;
    case RunStanding::kNothingClaimed:
      return 4;
    case RunStanding::kNotKnown:
      return 5;
    case RunStanding::kBroken:
      break;
  }
  return 6;
}

// " (1 of 2 seeds)"; empty where all are alike.
std::string OfSeeds(int64_t alike, size_t seeds) {
  return alike < static_cast<int64_t>(seeds) ? absl::StrCat(" (", alike, " of ", seeds, " seeds)") : "";
}

// The worst verdict of any seed, and the figures that it rests on.
void SummarizeStanding(const std::vector<const SweptRun*>& runs, TradeoffPoint& point) {
  point.proved_auc_bound = SpreadOfRanking(runs, ProvedAucBound);
  point.worst_case =
      SpreadOfKind(runs, [](const RunRanking& ranking) -> const RankedAttack& { return ranking.worst_case; });
  const auto of = [](const SweptRun* run) {
    return run->run.protection.reference == Reference::kFrozen ? RunStanding::kNothingReleased : run->ranking.standing;
  };
  point.standing = of(*std::max_element(runs.begin(), runs.end(), [&](const SweptRun* a, const SweptRun* b) {
    return StandingRank(of(a)) < StandingRank(of(b));
  }));
  const auto alike =
      std::count_if(runs.begin(), runs.end(), [&](const SweptRun* run) { return of(run) == point.standing; });
  point.verdict = absl::StrCat(StandingWords(point.standing), OfSeeds(alike, runs.size()));
}

// The worst state of any seed: where one run exceeds its bound, the protection does not keep it.
void SummarizeRanking(const std::vector<const SweptRun*>& runs, TradeoffPoint& point) {
  const auto of = [](RankedAttack RunRanking::*kind) {
    return [kind](const RunRanking& ranking) -> const RankedAttack& { return ranking.*kind; };
  };
  point.strongest =
      SpreadOfKind(runs, [](const RunRanking& ranking) -> const RankedAttack& { return ranking.strongest(); });
  point.practical = SpreadOfKind(runs, of(&RunRanking::practical));
  point.with_side_information = SpreadOfKind(runs, of(&RunRanking::with_side_information));
  point.no_gradient = SpreadOfKind(runs, of(&RunRanking::no_gradient));
  point.guessing_auc_p95 = SpreadOfRanking(runs, [](const RunRanking& ranking) { return ranking.guessing.p95; });
  point.guessing_auc_mean = SpreadOfRanking(runs, [](const RunRanking& ranking) { return ranking.guessing.mean; });
  const RunRanking* worst = &runs.front()->ranking;  // A point has a run.
  for (const SweptRun* run : runs) {
    if (BoundRank(run->ranking.bound) > BoundRank(worst->bound)) {
      worst = &run->ranking;
    }
  }
  point.bound = worst->bound;
  const auto alike =
      std::count_if(runs.begin(), runs.end(), [&](const SweptRun* run) { return run->ranking.bound == worst->bound; });
  if (point.reference == Reference::kFrozen) {
    point.bound = BoundState::kNothingLeft;
    point.bound_words = "no gradient leaves";
    return;
  }
  point.bound_words = absl::StrCat(BoundStateWords(*worst), OfSeeds(alike, runs.size()));
}

// Whether more than the gradients' protection makes it what it is: no point of that one's curve.
bool IsVariant(const SweepRun& run) {
  const SweepVariant& variant = run.variant;
  return run.protection.reference != Reference::kFrozen &&
         (!variant.cut_layer.empty() || (variant.activations.has_value() && !variant.activations->has_none()));
}

TradeoffPoint Summarize(const std::vector<const SweptRun*>& runs, const std::vector<LayerAndAttack>& keys,
                        const BottomGain& gain) {
  const SweepProtection& protection = runs.front()->run.protection;
  TradeoffPoint point;
  point.name = protection.name;
  point.family = IsVariant(runs.front()->run) ? "variant" : protection.family;
  point.parameter = protection.parameter;
  point.reference = protection.reference;
  point.seeds = static_cast<int>(runs.size());
  SummarizeRanking(runs, point);
  SummarizeStanding(runs, point);
  point.kept = gain.KeptBy(QualitiesOf(runs));
  point.test_quality = SpreadOfField(runs, &RunFigures::test_quality);
  point.final_test_quality = SpreadOfField(runs, &RunFigures::final_test_quality);
  point.test_loss = SpreadOfField(runs, &RunFigures::test_loss);
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

std::vector<LayerAndAttack> LayersAndAttacks(const std::vector<SweptRun>& runs) {
  std::map<LayerAndAttack, double> strengths;
  for (const SweptRun& run : runs) {
    for (const LeakPoint& leak : run.figures.leaks) {
      strengths[{leak.layer, leak.attack}] += std::isfinite(leak.p95) ? leak.p95 : 0;
    }
  }
  std::vector<LayerAndAttack> keys;
  for (const auto& [key, strength] : strengths) {
    keys.push_back(key);
  }
  const auto rank = [&](const LayerAndAttack& key) {
    return std::make_tuple(!ReadsGradients(key.second), -strengths[key], key.first != "cut", key.first, key.second);
  };
  std::sort(keys.begin(), keys.end(),
            [&](const LayerAndAttack& a, const LayerAndAttack& b) { return rank(a) < rank(b); });
  return keys;
}

BottomGain GainOf(const std::vector<SweptRun>& runs, const std::string& cut_layer) {
  std::vector<const SweptRun*> alike;
  for (const SweptRun& run : runs) {
    if (run.run.variant.cut_layer == cut_layer) {
      alike.push_back(&run);
    }
  }
  return {QualitiesOf(alike, Reference::kNone), QualitiesOf(alike, Reference::kFrozen), QualityName(runs)};
}

std::string GainWords(const std::vector<SweptRun>& runs) {
  std::vector<std::string> cuts, words;
  for (const SweptRun& run : runs) {
    const std::string& cut = run.run.variant.cut_layer;
    if (std::find(cuts.begin(), cuts.end(), cut) == cuts.end()) {
      cuts.push_back(cut);
      words.push_back(
          absl::StrCat(cut.empty() ? "" : absl::StrCat("Cut after ", cut, ": "), GainOf(runs, cut).Words()));
    }
  }
  return absl::StrJoin(words, " ");
}

bool IsRegression(const std::vector<SweptRun>& runs) { return !runs.empty() && runs.front().figures.is_regression; }

std::string QualityName(const std::vector<SweptRun>& runs) { return IsRegression(runs) ? "R^2" : "AUC"; }

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
    const std::vector<const SweptRun*>& same = by_name[name];
    points.push_back(Summarize(same, keys, GainOf(runs, same.front()->run.variant.cut_layer)));
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
