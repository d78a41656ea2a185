#include "deploy/operator/sweep/tradeoff.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "deploy/operator/records/figure_cells.h"

#include "common/figures/attack_catalogue.h"
#include "common/figures/figure_words.h"

namespace splitveil {
namespace {

using LayerAndAttack = std::pair<std::string, std::string>;

// 0: the value is not among them; else its place from 1. A seed with a later value decides for all seeds: what one run
// broke, the protection does not keep.
template <typename Value, size_t size>
int PlaceAmong(const Value (&from_best)[size], Value value) {
  const Value* const found = std::find(from_best, from_best + size, value);
  return found == from_best + size ? 0 : static_cast<int>(found - from_best) + 1;
}

// How much a state weighs among several seeds.
int BoundRank(BoundState state) {
  // States that are not listed say that a bound holds, and rank below all of these.
  constexpr BoundState kFromBest[] = {BoundState::kNotInLedger, BoundState::kNotTested, BoundState::kNoneStated,
                                      BoundState::kExceeded};
  return PlaceAmong(kFromBest, state);
}

Spread SpreadOfField(const std::vector<const SweptRun*>& runs, std::optional<double> RunFigures::*field) {
  return SpreadOfFigure(runs, [field](const SweptRun& run) { return run.figures.*field; });
}

LeakSpread SpreadOfLeak(const std::vector<const SweptRun*>& runs, const LayerAndAttack& key) {
  const auto of = [&](double LeakSummary::*field) {
    return SpreadOfFigure(runs, [&](const SweptRun& run) {
      const AttackFigure* const leak = LeakOf(run.figures, key.first, key.second);
      return leak != nullptr ? std::optional(leak->batches.*field) : std::nullopt;
    });
  };
  return {key.first, key.second, of(&LeakSummary::mean), of(&LeakSummary::p95)};
}

using Kind = const AttackFigure* (*)(const RunFigures& figures);

// `kind` of each run.
RankedSpread SpreadOfKind(const std::vector<const SweptRun*>& runs, Kind kind) {
  RankedSpread spread;
  double most = 0;
  for (const SweptRun* run : runs) {
    const AttackFigure* const attack = kind(run->recorded);
    // The name is that of the strongest over all seeds, and the figures are of whichever attack was strongest in each.
    if (attack != nullptr && attack->auc() > most) {
      most = attack->auc();
      spread.layer = attack->layer;
      spread.attack = attack->attack;
    }
  }
  const auto of = [&](auto figure) {
    return SpreadOfFigure(runs, [&](const SweptRun& run) -> std::optional<double> {
      const AttackFigure* const attack = kind(run.recorded);
      return attack != nullptr ? figure(*attack) : std::nullopt;
    });
  };
  spread.auc = of([](const AttackFigure& attack) { return std::optional(attack.auc()); });
  spread.tpr_1pct = of([](const AttackFigure& attack) { return attack.tpr_1pct(); });
  spread.tpr_01pct = of([](const AttackFigure& attack) { return attack.tpr_01pct(); });
  return spread;
}

const AttackFigure* WorstCase(const RunFigures& figures) {
  return figures.worst_case.has_value() ? &*figures.worst_case : nullptr;
}

// Of `reference`, or of all where it is none in particular.
QualitiesBySeed QualitiesOf(const std::vector<const SweptRun*>& runs,
                            std::optional<Reference> reference = std::nullopt) {
  QualitiesBySeed qualities;
  for (const SweptRun* run : runs) {
    if (!reference || run->run.protection.reference == *reference) {
      // NaN stands for a run without a figure: the seed is then left out of the pairs and not taken as 0.
      qualities[run->run.seed] = run->figures.test.quality().value_or(std::nan(""));
    }
  }
  return qualities;
}

// How much a verdict weighs among several seeds.
int VerdictRank(PrivacyVerdict verdict) {
  // What is not known weighs more than all but a broken promise, because it may be one.
  constexpr PrivacyVerdict kFromBest[] = {PrivacyVerdict::kUnchecked, PrivacyVerdict::kHolds,
                                          PrivacyVerdict::kUntested,  PrivacyVerdict::kNothingClaimed,
                                          PrivacyVerdict::kNotKnown,  PrivacyVerdict::kBroken};
  return PlaceAmong(kFromBest, verdict);
}

// " (1 of 2 seeds)"; empty where all are alike.
std::string OfSeeds(int64_t alike, size_t seeds) {
  return alike < static_cast<int64_t>(seeds) ? absl::StrCat(" (", alike, " of ", seeds, " seeds)") : "";
}

// The worst verdict of any seed, and the figures that it rests on.
void SummarizeVerdict(const std::vector<const SweptRun*>& runs, TradeoffPoint& point) {
  point.proved_auc_bound = SpreadOfFigure(runs, [](const SweptRun& run) { return run.recorded.proved_auc_bound(); });
  point.worst_case = SpreadOfKind(runs, WorstCase);
  const auto of = [](const SweptRun* run) {
    // A frozen bottom model gets no gradient, so there is nothing to judge.
    return run->run.protection.reference == Reference::kFrozen ? PrivacyVerdict::kNothingReleased
                                                               : run->recorded.verdict();
  };
  point.worst_verdict = of(*std::max_element(runs.begin(), runs.end(), [&](const SweptRun* a, const SweptRun* b) {
    return VerdictRank(of(a)) < VerdictRank(of(b));
  }));
  const auto alike =
      std::count_if(runs.begin(), runs.end(), [&](const SweptRun* run) { return of(run) == point.worst_verdict; });
  point.verdict = absl::StrCat(VerdictWords(point.worst_verdict), OfSeeds(alike, runs.size()));
}

// The worst state of any seed: if one run exceeds its bound, the protection does not keep it.
void SummarizeAttacks(const std::vector<const SweptRun*>& runs, TradeoffPoint& point) {
  point.strongest = SpreadOfKind(runs, [](const RunFigures& figures) { return figures.strongest(); });
  point.practical = SpreadOfKind(runs, [](const RunFigures& figures) { return figures.practical(); });
  point.with_side_information =
      SpreadOfKind(runs, [](const RunFigures& figures) { return figures.with_side_information(); });
  point.no_gradient = SpreadOfKind(runs, [](const RunFigures& figures) { return figures.no_gradient(); });
  const auto guessing = [&](double Guessing::*figure) {
    return SpreadOfFigure(runs, [&](const SweptRun& run) {
      return run.recorded.guessing.has_value() ? std::optional((*run.recorded.guessing).*figure) : std::nullopt;
    });
  };
  point.guessing_auc_p95 = guessing(&Guessing::p95);
  point.guessing_auc_mean = guessing(&Guessing::mean);
  const RunFigures* worst = &runs.front()->recorded;  // A point has a run.
  for (const SweptRun* run : runs) {
    if (BoundRank(run->recorded.bound()) > BoundRank(worst->bound())) {
      worst = &run->recorded;
    }
  }
  point.bound = worst->bound();
  const auto alike = std::count_if(runs.begin(), runs.end(),
                                   [&](const SweptRun* run) { return run->recorded.bound() == worst->bound(); });
  if (point.reference == Reference::kFrozen) {
    point.bound = BoundState::kNothingReleased;
    point.bound_words = "no gradient is released";
    return;
  }
  point.bound_words = absl::StrCat(
      worst->is_proved() && point.bound > BoundState::kNoneStated && point.bound != BoundState::kExceeded ? "proved; "
                                                                                                          : "",
      BoundStateWords(*worst), OfSeeds(alike, runs.size()));
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
  SummarizeAttacks(runs, point);
  SummarizeVerdict(runs, point);
  point.kept = gain.KeptBy(QualitiesOf(runs));
  point.test_quality = SpreadOfFigure(runs, [](const SweptRun& run) { return run.figures.test.quality(); });
  point.final_test_quality = SpreadOfFigure(runs, [](const SweptRun& run) { return run.figures.final_test.quality(); });
  point.test_loss = SpreadOfFigure(runs, [](const SweptRun& run) { return run.figures.test.loss(); });
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
    for (const AttackFigure* leak : run.figures.over_batches()) {
      // A sum over the runs orders the columns once for all rows of the table.
      strengths[{leak->layer, leak->attack}] += leak->batches.p95;
    }
  }
  std::vector<LayerAndAttack> keys;
  for (const auto& [key, strength] : strengths) {
    keys.push_back(key);
  }
  const auto rank = [&](const LayerAndAttack& key) {
    // Attacks on what is released come first: the others do not get weaker by noise on gradients.
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

bool IsRegression(const std::vector<SweptRun>& runs) {
  return !runs.empty() && runs.front().figures.test.is_regression();
}

std::string QualityName(const std::vector<SweptRun>& runs) { return IsRegression(runs) ? "R^2" : "AUC"; }

std::vector<std::vector<const SweptRun*>> RunsByProtection(const std::vector<SweptRun>& runs) {
  std::vector<std::vector<const SweptRun*>> groups;
  std::map<std::string, size_t> group_of;  // By name.
  for (const SweptRun& run : runs) {
    const auto [group, is_new] = group_of.emplace(run.run.protection.name, groups.size());
    // In the order of the plan, which the reader has written, and not by name.
    groups.resize(groups.size() + (is_new ? 1 : 0));
    groups[group->second].push_back(&run);
  }
  return groups;
}

std::vector<TradeoffPoint> SummarizeSeeds(const std::vector<SweptRun>& runs) {
  const std::vector<LayerAndAttack> keys = LayersAndAttacks(runs);
  std::vector<TradeoffPoint> points;
  for (const std::vector<const SweptRun*>& same : RunsByProtection(runs)) {
    points.push_back(Summarize(same, keys, GainOf(runs, same.front()->run.variant.cut_layer)));
  }
  return points;
}

std::vector<bool> ParetoFront(const std::vector<Tradeoff>& choices) {
  std::vector<bool> on_front(choices.size());
  for (size_t i = 0; i < choices.size(); ++i) {
    const Tradeoff& own = choices[i];
    const auto beats_own = [&own](const Tradeoff& other) {
      // No worse in both and better in one: equal choices do not push each other off the front.
      return IsFinite(other) && other.leak <= own.leak && other.cost <= own.cost &&
             (other.leak < own.leak || other.cost < own.cost);
    };
    on_front[i] = IsFinite(own) && std::none_of(choices.begin(), choices.end(), beats_own);
  }
  return on_front;
}

namespace {

using Runs = std::vector<const SweptRun*>;

// Spreads of these figures, named after the one of the largest advantage.
AttributeAttackSpread SpreadOfFigures(const std::vector<const AttributeFigure*>& figures) {
  AttributeAttackSpread spread;
  std::vector<double> accuracies, aucs, advantages;
  const AttributeFigure* most = figures.front();
  for (const AttributeFigure* figure : figures) {
    // By what an attack gains over guessing; accuracies of unevenly spread values do not compare.
    most = figure->leak.advantage() > most->leak.advantage() ? figure : most;
    accuracies.push_back(figure->leak.accuracy);
    aucs.push_back(InvertedAuc(figure->leak.auc));
    advantages.push_back(figure->leak.advantage());
  }
  spread.attack = most->leak.attack;
  spread.examples = most->leak.examples;
  spread.is_highest = most->is_highest;
  spread.accuracy = SpreadOf(accuracies);
  spread.auc = SpreadOf(aucs);
  spread.advantage = SpreadOf(advantages);
  return spread;
}

std::vector<AttributeSpread> SpreadsOf(const Runs& runs) {
  std::map<std::string, std::vector<const AttributeFigure*>> strongest;
  std::map<std::string, std::map<std::pair<std::string, std::string>, std::vector<const AttributeFigure*>>> attacks;
  for (const SweptRun* run : runs) {
    if (!run->attributes.has_value()) {
      continue;
    }
    for (const AttributeFigure* figure : run->attributes->strongest()) {
      strongest[figure->leak.attribute].push_back(figure);
    }
    for (const AttributeFigure& figure : run->attributes->figures) {
      attacks[figure.leak.attribute][{figure.leak.attack, figure.leak.examples}].push_back(&figure);
    }
  }
  std::vector<AttributeSpread> spreads;
  for (const auto& [attribute, figures] : strongest) {
    AttributeSpread& spread = spreads.emplace_back();
    spread.attribute = attribute;
    std::vector<double> floors;
    for (const AttributeFigure* figure : figures) {
      floors.push_back(figure->leak.floor);
    }
    spread.floor = SpreadOf(floors);
    spread.strongest = SpreadOfFigures(figures);
    for (const auto& [place, of_attack] : attacks[attribute]) {
      spread.attacks.push_back(SpreadOfFigures(of_attack));
    }
    // Stable, so that equal ones stay in the order of their names on every machine.
    std::stable_sort(spread.attacks.begin(), spread.attacks.end(),
                     [](const AttributeAttackSpread& a, const AttributeAttackSpread& b) {
                       return a.advantage.mean > b.advantage.mean;
                     });
  }
  return spreads;
}

AttributePoint Summarize(const Runs& runs) {
  const SweptRun& first = *runs.front();
  AttributePoint point;
  point.name = first.run.protection.name;
  for (const SweptRun* run : runs) {
    // Of any run that has records: one that failed has none, and its seed must not blank the row.
    point.protection = run->attributes.has_value() ? run->attributes->protection : point.protection;
  }
  point.method = point.protection.substr(0, point.protection.find('('));
  point.gradient_protection = first.run.protection.family;
  if (first.run.protection.parameter.has_value()) {
    // Both directions in one name: what one party's noise costs depends on the other's.
    absl::StrAppend(&point.gradient_protection, " ", *first.run.protection.parameter);
  }
  point.cut_layer = first.run.agreement.cut_layer();
  point.cut_width = first.run.agreement.cut_width();
  point.reference = first.run.protection.reference;
  point.seeds = static_cast<int>(runs.size());
  point.test_accuracy = SpreadOfFigure(runs, [](const SweptRun& run) { return run.test_accuracy; });
  point.test_quality =
      SpreadOfFigure(runs, [](const SweptRun& run) { return run.figures.test.quality().value_or(std::nan("")); });
  point.label_leak = SpreadOfFigure(runs, [](const SweptRun& run) {
    return run.recorded.strongest() != nullptr ? run.recorded.strongest()->auc() : std::nan("");
  });
  point.proved_auc_bound = SpreadOfFigure(runs, [](const SweptRun& run) {
    return run.attributes.has_value() && run.attributes->bound.has_value() ? run.attributes->bound->auc_bound
                                                                           : std::numeric_limits<double>::quiet_NaN();
  });
  point.attributes = SpreadsOf(runs);
  return point;
}

}  // namespace

std::vector<std::string> AttributesOf(const std::vector<SweptRun>& runs) {
  std::set<std::string> names;
  for (const SweptRun& run : runs) {
    for (const AttributeFigure& figure : run.attributes.value_or(AttributeRecords()).figures) {
      names.insert(figure.leak.attribute);
    }
  }
  return {names.begin(), names.end()};
}

bool VariesCut(const std::vector<SweptRun>& runs) {
  return std::any_of(runs.begin(), runs.end(), [](const SweptRun& run) { return !run.run.variant.cut_layer.empty(); });
}

bool HasOtherDirection(const std::vector<SweptRun>& runs) {
  return VariesCut(runs) || std::any_of(runs.begin(), runs.end(), [](const SweptRun& run) {
           return !run.run.variant.activation_name.empty() || (run.attributes.has_value() && run.attributes->has_any());
         });
}

std::vector<AttributePoint> SummarizeAttributes(const std::vector<SweptRun>& runs) {
  std::vector<AttributePoint> points;
  if (HasOtherDirection(runs)) {
    for (const Runs& same : RunsByProtection(runs)) {
      points.push_back(Summarize(same));
    }
  }
  return points;
}

}  // namespace splitveil
