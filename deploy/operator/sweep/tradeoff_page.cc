#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "deploy/operator/page/page.h"
#include "deploy/operator/records/ledger_figures.h"
#include "deploy/operator/sweep/tradeoff.h"

#include "common/figures/attack_catalogue.h"
#include "common/figures/figure_words.h"
#include "common/page/embedded.h"

namespace splitveil {
namespace {

int KindOf(const std::string& method) {
  const absl::Span<const ActivationMethod> methods = ActivationMethods();
  const auto* const found =
      std::find_if(methods.begin(), methods.end(), [&](const ActivationMethod& known) { return method == known.name; });
  return found == methods.end() ? 0 : static_cast<int>(found - methods.begin());
}

Json SpreadJson(const Spread& spread) {
  return {{"mean", NumberJson(spread.mean)}, {"min", NumberJson(spread.min)}, {"max", NumberJson(spread.max)}};
}

Json AttackJson(const AttributeAttackSpread& attack) {
  return {{"attack", attack.attack},
          {"title", AttributeAttackTitle(attack.attack)},
          {"examples", attack.examples},
          {"when", attack.is_highest ? "highest over training" : "inference"},
          {"accuracy", SpreadJson(attack.accuracy)},
          {"auc", SpreadJson(attack.auc)},
          {"advantage", SpreadJson(attack.advantage)}};
}

Json PointJson(const AttributePoint& point) {
  Json attributes = Json::object();
  for (const AttributeSpread& spread : point.attributes) {
    Json attacks = Json::array();
    for (const AttributeAttackSpread& attack : spread.attacks) {
      attacks.push_back(AttackJson(attack));
    }
    attributes[spread.attribute] = {{"floor", SpreadJson(spread.floor)},
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
          {"accuracy", SpreadJson(point.test_accuracy)},
          {"quality", SpreadJson(point.test_quality)},
          {"label_leak", SpreadJson(point.label_leak)},
          {"proved_words", proved ? absl::StrCat("AUC at most ", BoundText(point.proved_auc_bound.mean), " in one run")
                           : point.method == "none" || point.method.empty() ? "not protected"
                                                                            : "measured only: a heuristic"},
          {"proved", proved},
          {"attributes", std::move(attributes)}};
}

Json MethodsJson(const std::vector<AttributePoint>& points) {
  Json methods = Json::array();
  for (const ActivationMethod& method : ActivationMethods()) {
    const int kind = KindOf(method.name);
    if (std::any_of(points.begin(), points.end(), [&](const AttributePoint& point) {
          return KindOf(point.method) == kind && point.reference != Reference::kFrozen;
        })) {
      methods.push_back({{"kind", kind}, {"label", method.label}});
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

SPLITVEIL_EMBEDDED(TradeoffHtml);
SPLITVEIL_EMBEDDED(TradeoffCss);
SPLITVEIL_EMBEDDED(TradeoffJs);

namespace {

constexpr size_t kPairsCharted = 8;  // Beside norm and cosine; the table has all.

// A family's words for a legend.
struct FamilyWords {
  const char* family;
  const char* label;
};
constexpr FamilyWords kFamilies[] = {
    {"none", "No protection"},
    {"max_norm", "Noise to the largest norm (max_norm)"},
    {"marvell_s", "Marvell, by power s"},
    {"marvell_sum_kl", "Marvell, by divergence sum_kl"},
    {"marvell_detection_error", "Marvell, by detection error"},
    {"iso_t", "Isotropic noise, by power t"},
    {"iso_ratio", "Isotropic noise, by ratio of standard deviation"},
    {"marvell_run_budget", "Marvell, by the bound for the whole run"},
    {"label_dp", "Labels flipped at random, by epsilon"},
    {"gaussian_label_dp_sigma", "Labels with Gaussian noise, by its standard deviation"},
    {"gaussian_label_dp_mu", "Labels with Gaussian noise, by mu"},
    {"gaussian_label_dp_budget", "Labels with Gaussian noise, by epsilon"},
    {"gaussian_label_dp_run_auc_bound", "Labels with Gaussian noise, by the bound for the whole run"},
    {"sparsify", "Largest components only, by share kept"},
    {"discretize", "Rounded components, by number of values"},
    {"frozen", "Bottom model frozen at its start"},
    {"variant", "Activations protected, or cut elsewhere: see below"},
};

Json KindJson(const RankedSpread& kind) {
  return {{"title", kind.attack.empty() ? "none measured" : AttackTitle(kind.attack)},
          {"layer_name", kind.attack.empty() ? "" : DescribeLayer(kind.layer)},
          {"auc", SpreadJson(kind.auc)},
          {"held_against_bound", IsWorstCase(kind.attack)},
          {"tpr_1pct", SpreadJson(kind.tpr_1pct)},
          {"tpr_01pct", SpreadJson(kind.tpr_01pct)}};
}

Json FamiliesJson(const std::vector<TradeoffPoint>& points) {
  Json families = Json::array();
  int kind = 0;  // A family looks the same on every page, whichever others are there.
  for (const FamilyWords& words : kFamilies) {
    std::vector<std::pair<double, int>> line;  // Ascending parameter.
    for (size_t i = 0; i < points.size(); ++i) {
      if (points[i].family == words.family) {
        line.emplace_back(points[i].parameter.value_or(0), i);
      }
    }
    std::sort(line.begin(), line.end());
    Json indexes = Json::array();
    for (const auto& [unused, index] : line) {
      indexes.push_back(index);
    }
    if (!line.empty()) {
      families.push_back({{"kind", kind},
                          {"variant", points[line.front().second].family == "variant"},
                          {"frozen", points[line.front().second].reference == Reference::kFrozen},
                          {"label", words.label},
                          {"points", std::move(indexes)}});
    }
    ++kind;
  }
  return families;
}

Json PointJson(const TradeoffPoint& point) {
  Json leaks = Json::array();
  for (const LeakSpread& leak : point.leaks) {
    leaks.push_back({{"mean", SpreadJson(leak.mean)}, {"p95", SpreadJson(leak.p95)}});
  }
  return {{"name", point.name},
          {"mark", point.parameter ? absl::StrFormat("%g", *point.parameter) : ""},
          {"seeds", point.seeds},
          {"strongest", KindJson(point.strongest)},
          {"verdict", point.verdict},
          {"broken", point.worst_verdict == PrivacyVerdict::kBroken},
          {"proved_auc_bound", SpreadJson(point.proved_auc_bound)},
          {"worst_case", KindJson(point.worst_case)},
          {"practical", KindJson(point.practical)},
          {"with_side_information", KindJson(point.with_side_information)},
          {"no_gradient", KindJson(point.no_gradient)},
          {"guessing", SpreadJson(point.guessing_auc_p95)},
          {"guessing_mean", SpreadJson(point.guessing_auc_mean)},
          {"bound", BoundStateName(point.bound)},
          {"bound_words", point.bound_words},
          {"frozen", point.reference == Reference::kFrozen},
          {"test_quality", SpreadJson(point.test_quality)},
          {"frozen_quality", SpreadJson(point.kept.frozen_quality)},
          {"none_quality", SpreadJson(point.kept.none_quality)},
          {"gain_kept", SpreadJson(point.kept.share)},
          {"final_quality", SpreadJson(point.final_test_quality)},
          {"test_loss", SpreadJson(point.test_loss)},
          {"run_auc_bound", SpreadJson(point.run_auc_bound)},
          {"auc_bound_p95", SpreadJson(point.auc_bound_p95)},
          {"sum_kl_mean", SpreadJson(point.sum_kl_mean)},
          {"leaks", std::move(leaks)}};
}

// Which points are on the front of leak against quality, by the means over seeds. Where the bottom model is frozen no
// gradient is released: a protection that trains worse than that is good for nothing.
Json FrontJson(const std::vector<TradeoffPoint>& points, const std::function<double(const TradeoffPoint&)>& leak,
               bool by_quality) {
  std::vector<Tradeoff> choices;
  for (const TradeoffPoint& point : points) {
    choices.push_back({point.reference == Reference::kFrozen ? 0.5 : leak(point),
                       by_quality ? -point.test_quality.mean : point.test_loss.mean});
  }
  return ParetoFront(choices);
}

// The strongest, and those of the papers' figures.
bool IsCharted(size_t rank, const std::string& layer, const std::string& attack) {
  return rank < kPairsCharted || ((layer == "cut" || layer == "first") && (attack == "norm" || attack == "cosine"));
}

// Of the strongest attack (no "pair"), then of single layers and attacks.
Json ChartsJson(const std::vector<SweptRun>& runs, const std::vector<TradeoffPoint>& points) {
  Json charts = Json::array();
  const bool measured = std::any_of(points.begin(), points.end(),
                                    [](const TradeoffPoint& point) { return std::isfinite(point.strongest.auc.mean); });
  for (const bool by_quality : {true, false}) {
    if (measured) {
      charts.push_back(
          {{"pair", nullptr},
           {"metric", by_quality ? "test_quality" : "test_loss"},
           {"front", FrontJson(
                         points, [](const TradeoffPoint& point) { return point.strongest.auc.mean; }, by_quality)}});
    }
  }
  const auto pairs = LayersAndAttacks(runs);
  for (size_t i = 0; i < pairs.size(); ++i) {
    if (IsCharted(i, pairs[i].first, pairs[i].second)) {
      charts.push_back(
          {{"pair", i},
           {"metric", "test_quality"},
           {"front", FrontJson(
                         points, [i](const TradeoffPoint& point) { return point.leaks[i].p95.mean; }, true)}});
    }
  }
  return charts;
}

std::string Words(const std::vector<SweptRun>& runs, const std::vector<TradeoffPoint>& points, int64_t planned) {
  const auto protections = std::count_if(
      points.begin(), points.end(), [](const TradeoffPoint& point) { return point.reference != Reference::kFrozen; });
  std::set<uint64_t> seeds;
  for (const SweptRun& run : runs) {
    seeds.insert(run.run.seed);
  }
  const v1::RunAgreement& agreement = runs.front().run.agreement;
  return absl::StrCat(runs.size(), " of ", planned, " runs finished: ", protections,
                      protections == 1 ? " protection" : " protections", seeds.size() == 1 ? ", seed " : ", seeds ",
                      absl::StrJoin(seeds, ", "), "; ", agreement.epochs(),
                      agreement.epochs() == 1 ? " epoch" : " epochs", " of batches of ", agreement.batch_size(),
                      VariesCut(runs) ? "" : absl::StrCat(", cut layer ", agreement.cut_width(), " wide"), ".");
}

}  // namespace

Json TradeoffJson(const std::vector<SweptRun>& runs, int64_t planned) {
  const std::vector<TradeoffPoint> points = SummarizeSeeds(runs);
  Json pairs = Json::array(), point_objects = Json::array();
  for (const auto& [layer, attack] : LayersAndAttacks(runs)) {
    pairs.push_back({{"layer_name", DescribeLayer(layer)}, {"title", AttackTitle(attack)}, {"attack", attack}});
  }
  for (const TradeoffPoint& point : points) {
    point_objects.push_back(PointJson(point));
  }
  return {{"words", Words(runs, points, planned)},
          {"gain", GainWords(runs)},
          {"attributes", AttributeTradeoffJson(runs)},
          {"quality", QualityName(runs)},
          {"loss", IsRegression(runs) ? "RMSE" : "log loss"},
          {"pairs", std::move(pairs)},
          {"families", FamiliesJson(points)},
          {"points", std::move(point_objects)},
          {"charts", ChartsJson(runs, points)}};
}

std::string TradeoffPage(const std::vector<SweptRun>& runs, int64_t planned) {
  return RenderPage(
      {EmbeddedTradeoffHtml(), "Splitveil: what leaks, and what it costs", EmbeddedTradeoffCss(), EmbeddedTradeoffJs()},
      TradeoffJson(runs, planned));
}

}  // namespace splitveil
