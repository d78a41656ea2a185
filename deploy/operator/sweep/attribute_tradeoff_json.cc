#include "deploy/operator/sweep/attribute_tradeoff_json.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "deploy/operator/records/attribute_records.h"
#include "deploy/operator/sweep/attribute_tradeoff.h"

#include "common/figures/attack_catalogue.h"

namespace splitveil {
namespace {

// In the order of the paper's tables, so that a method looks the same on every page.
struct MethodWords {
  const char* method;
  const char* label;
};
constexpr MethodWords kMethods[] = {
    {"none", "Activations not protected"},
    {"adversarial", "Adversarial training"},
    {"adversarial_label_flip", "Adversarial training with label flip"},
    {"infocensor", "InfoCensor"},
    {"linear", "Linear scalarisation"},
    {"pareto", "Pareto search"},
    {"gaussian", "Clipping and Gaussian noise (proved)"},
};

int KindOf(const std::string& method) {
  int kind = 0;
  for (const MethodWords& words : kMethods) {
    if (method == words.method) {
      return kind;
    }
    ++kind;
  }
  return 0;
}

Json RangeJson(const Spread& spread) {
  return {{"mean", NumberJson(spread.mean)}, {"min", NumberJson(spread.min)}, {"max", NumberJson(spread.max)}};
}

Json AttackJson(const AttributeAttackSpread& attack) {
  return {{"attack", attack.attack},
          {"title", AttributeAttackTitle(attack.attack)},
          {"examples", attack.examples},
          {"when", attack.is_highest ? "highest over training" : "inference"},
          {"accuracy", RangeJson(attack.accuracy)},
          {"auc", RangeJson(attack.auc)},
          {"advantage", RangeJson(attack.advantage)}};
}

Json PointJson(const AttributePoint& point) {
  Json attributes = Json::object();
  for (const AttributeSpread& spread : point.attributes) {
    Json attacks = Json::array();
    for (const AttributeAttackSpread& attack : spread.attacks) {
      attacks.push_back(AttackJson(attack));
    }
    attributes[spread.attribute] = {{"floor", RangeJson(spread.floor)},
                                    {"strongest", AttackJson(spread.strongest)},
                                    {"attacks", std::move(attacks)}};
  }
  const bool proved = std::isfinite(point.proved_auc_bound.mean);
  return {{"name", point.name},
          {"protection", point.protection},
          {"kind", KindOf(point.method)},
          {"frozen", point.reference == Reference::kFrozen},
          {"cut", point.cut_layer.empty() ? "cut" : point.cut_layer},
          {"seeds", point.seeds},
          {"accuracy", RangeJson(point.test_accuracy)},
          {"quality", RangeJson(point.test_quality)},
          {"label_leak", RangeJson(point.label_leak)},
          {"proved_words", proved ? absl::StrFormat("AUC at most %.3f in one run", point.proved_auc_bound.mean)
                           : point.method == "none" || point.method.empty() ? "not protected"
                                                                            : "measured only: a heuristic"},
          {"proved", proved},
          {"attributes", std::move(attributes)}};
}

Json MethodsJson(const std::vector<AttributePoint>& points) {
  Json methods = Json::array();
  for (const MethodWords& words : kMethods) {
    const int kind = KindOf(words.method);
    if (std::any_of(points.begin(), points.end(), [&](const AttributePoint& point) {
          return KindOf(point.method) == kind && point.reference != Reference::kFrozen;
        })) {
      methods.push_back({{"kind", kind}, {"label", words.label}});
    }
  }
  return methods;
}

// What is alike but for the cut: a chart each. A run's name without the cut's part, and its points by cut.
Json CutsJson(const std::vector<SweptRun>& runs, const std::vector<AttributePoint>& points) {
  if (!VariesCut(runs)) {
    return Json();
  }
  Json names = Json::array(), charts = Json::array();
  for (size_t i = 0; i < points.size(); ++i) {
    const AttributePoint& point = points[i];
    if (std::find(names.begin(), names.end(), Json(point.cut_layer)) == names.end()) {
      names.push_back(point.cut_layer);
    }
    if (point.reference == Reference::kFrozen) {
      continue;
    }
    const std::string suffix = absl::StrCat(", cut ", point.cut_layer);
    const std::string title = point.name.substr(0, point.name.rfind(suffix));
    auto chart = std::find_if(charts.begin(), charts.end(), [&](const Json& known) { return known["title"] == title; });
    if (chart == charts.end()) {
      charts.push_back({{"title", title}, {"points", Json::array()}});
      chart = charts.end() - 1;
    }
    (*chart)["points"].push_back(i);
  }
  return {{"names", std::move(names)}, {"charts", std::move(charts)}};
}

}  // namespace

Json AttributeTradeoffJson(const std::vector<SweptRun>& runs) {
  const std::vector<AttributePoint> points = SummarizeAttributes(runs);
  if (points.empty()) {
    return Json();
  }
  Json all = Json::array();
  for (const AttributePoint& point : points) {
    all.push_back(PointJson(point));
  }
  return {{"names", AttributesOf(runs)},
          {"methods", MethodsJson(points)},
          {"points", std::move(all)},
          {"cuts", CutsJson(runs, points)}};
}

}  // namespace splitveil
