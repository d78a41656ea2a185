#include "deploy/operator/sweep/tradeoff_page.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "deploy/operator/report/embedded.h"
#include "deploy/operator/report/page.h"
#include "deploy/operator/sweep/embedded.h"

namespace splitveil {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kPairsShown = 4;  // The other layers and attacks stand under a fold.

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
};

Json Number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json SpreadJson(const Spread& spread) {
  return {{"mean", Number(spread.mean)}, {"min", Number(spread.min)}, {"max", Number(spread.max)}};
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
      families.push_back({{"kind", kind}, {"label", words.label}, {"points", std::move(indexes)}});
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
          {"test_auc", SpreadJson(point.best_test_auc)},
          {"final_test_auc", SpreadJson(point.final_test_auc)},
          {"test_log_loss", SpreadJson(point.test_log_loss)},
          {"run_auc_bound", SpreadJson(point.run_auc_bound)},
          {"auc_bound_p95", SpreadJson(point.auc_bound_p95)},
          {"sum_kl_mean", SpreadJson(point.sum_kl_mean)},
          {"leaks", std::move(leaks)}};
}

// Which points are on the front of leak against quality, by the means over seeds.
Json FrontJson(const std::vector<TradeoffPoint>& points, size_t pair, Spread LeakSpread::*statistic, bool by_auc) {
  std::vector<Tradeoff> choices;
  for (const TradeoffPoint& point : points) {
    const double cost = by_auc ? -point.best_test_auc.mean : point.test_log_loss.mean;
    choices.push_back({(point.leaks[pair].*statistic).mean, cost});
  }
  return ParetoFront(choices);
}

Json ChartsJson(const std::vector<SweptRun>& runs, const std::vector<TradeoffPoint>& points) {
  Json charts = Json::array();
  const auto pairs = LayersAndAttacks(runs);
  for (size_t i = 0; i < pairs.size(); ++i) {
    for (const bool by_auc : {true, false}) {
      charts.push_back({{"pair", i},
                        {"metric", by_auc ? "test_auc" : "test_log_loss"},
                        {"shown", i < kPairsShown},
                        {"front",
                         {{"p95", FrontJson(points, i, &LeakSpread::p95, by_auc)},
                          {"mean", FrontJson(points, i, &LeakSpread::mean, by_auc)}}}});
    }
  }
  return charts;
}

std::string Words(const std::vector<SweptRun>& runs, size_t protections, int64_t planned) {
  std::set<uint64_t> seeds;
  for (const SweptRun& run : runs) {
    seeds.insert(run.run.seed);
  }
  const v1::RunAgreement& agreement = runs.front().run.agreement;
  return absl::StrCat(runs.size(), " of ", planned, " runs finished: ", protections,
                      protections == 1 ? " protection" : " protections", seeds.size() == 1 ? ", seed " : ", seeds ",
                      absl::StrJoin(seeds, ", "), "; ", agreement.epochs(),
                      agreement.epochs() == 1 ? " epoch" : " epochs", " of batches of ", agreement.batch_size(),
                      ", cut layer ", agreement.cut_width(), " wide.");
}

}  // namespace

std::string TradeoffJson(const std::vector<SweptRun>& runs, int64_t planned) {
  const std::vector<TradeoffPoint> points = SummarizeSeeds(runs);
  Json pairs = Json::array(), point_objects = Json::array();
  for (const auto& [layer, attack] : LayersAndAttacks(runs)) {
    pairs.push_back({{"layer", layer}, {"attack", absl::StrReplaceAll(attack, {{"_", " "}})}});
  }
  for (const TradeoffPoint& point : points) {
    point_objects.push_back(PointJson(point));
  }
  const Json page = {{"words", Words(runs, points.size(), planned)},
                     {"pairs", std::move(pairs)},
                     {"families", FamiliesJson(points)},
                     {"points", std::move(point_objects)},
                     {"charts", ChartsJson(runs, points)}};
  return absl::StrReplaceAll(page.dump(-1, ' ', false, Json::error_handler_t::replace),
                             {{"<", "\\u003c"}, {">", "\\u003e"}, {"&", "\\u0026"}});
}

std::string TradeoffPage(const std::vector<SweptRun>& runs, int64_t planned) {
  const std::string style = absl::StrCat(EmbeddedReportCss(), EmbeddedTradeoffCss());
  return RenderPage({EmbeddedTradeoffHtml(), style, EmbeddedTradeoffJs()}, TradeoffJson(runs, planned));
}

}  // namespace splitveil
