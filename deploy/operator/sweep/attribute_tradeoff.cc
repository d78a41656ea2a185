#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "deploy/operator/sweep/tradeoff.h"

namespace splitveil {
namespace {

using Runs = std::vector<const SweptRun*>;

// Spreads of these figures, named after the one of the largest advantage.
AttributeAttackSpread SpreadOfFigures(const std::vector<const AttributeFigure*>& figures) {
  AttributeAttackSpread spread;
  std::vector<double> accuracies, aucs, advantages;
  const AttributeFigure* most = figures.front();
  for (const AttributeFigure* figure : figures) {
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
    point.protection = run->attributes.has_value() ? run->attributes->protection : point.protection;
  }
  point.method = point.protection.substr(0, point.protection.find('('));
  point.gradient_protection = first.run.protection.family;
  if (first.run.protection.parameter.has_value()) {
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
