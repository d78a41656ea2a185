#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "deploy/operator/report/report_sections.h"

#include "common/leakage/bounds.h"

namespace splitveil {
namespace {

struct SolverField {
  const char* name;
  double ProtectionRow::*field;
};
constexpr SolverField kSolverFields[] = {
    {"u", &ProtectionRow::u},
    {"v", &ProtectionRow::v},
    {"g", &ProtectionRow::g},
    {"p", &ProtectionRow::p},
    {"power", &ProtectionRow::power},
    {"lambda1_neg", &ProtectionRow::lambda1_neg},
    {"lambda2_neg", &ProtectionRow::lambda2_neg},
    {"lambda1_pos", &ProtectionRow::lambda1_pos},
    {"lambda2_pos", &ProtectionRow::lambda2_pos},
    {"sum_kl", &ProtectionRow::sum_kl},
    {"auc_bound", &ProtectionRow::auc_bound},
};

// In the order the page shows them: before the noise, then after it.
constexpr std::pair<const char*, const char*> kQuantities[] = {
    {"clean_norm", "Gradient length before the noise"},
    {"norm", "Gradient length as released"},
    {"clean_cosine", "Direction before the noise"},
    {"cosine", "Direction as released"},
};

// The outline of a histogram whose empty bins are left out: [value, percent of `examples`] from each value on.
Json Outline(const std::vector<const DistributionRow*>& bins, int64_t examples) {
  Json points = Json::array();
  const DistributionRow* last = nullptr;
  for (const DistributionRow* bin : bins) {
    // A gap between bins is empty, not a slope.
    if (last != nullptr && bin->bin != last->bin + 1) {
      points.push_back(Json::array({NumberJson(last->high), 0}));
    }
    const double percent =
        100 * static_cast<double>(bin->examples) / static_cast<double>(std::max<int64_t>(1, examples));
    points.push_back(Json::array({NumberJson(bin->low), NumberJson(percent)}));
    last = bin;
  }
  if (last != nullptr) {
    points.push_back(Json::array({NumberJson(last->high), 0}));
  }
  return points;
}

}  // namespace

Json SolverJson(const LedgerRun& run) {
  Json solver = Json::object();
  const std::vector<ProtectionRow>& rows = run.protections();
  for (const SolverField& field : kSolverFields) {
    double sum = 0;
    int64_t count = 0;
    for (const ProtectionRow& row : rows) {
      if (std::isfinite(row.*field.field)) {
        sum += row.*field.field;
        ++count;
      }
    }
    if (count > 0) {
      solver[field.name] = {{"mean", NumberJson(sum / static_cast<double>(count))},
                            {"curve", FieldCurve(rows, field.field)}};
    }
  }
  if (solver.contains("sum_kl")) {
    std::vector<int64_t> steps;
    std::vector<double> allowed;
    for (const ProtectionRow& row : rows) {
      steps.push_back(row.step);
      allowed.push_back(std::isfinite(row.sum_kl) ? GaussianAucBound(row.sum_kl) : std::nan(""));
    }
    solver["gaussian_auc_bound"] = {{"curve", CurveJson(steps, allowed)}};
  }
  return solver;
}

Json GateJson(const LedgerRun& run) {
  if (run.protections().empty()) {
    return Json();
  }
  // A step that was halted has no row of its own: it belongs to the epoch of the last one before it.
  std::map<int64_t, std::map<v1::GateAction, int64_t>> epochs;
  std::map<v1::GateAction, int64_t> totals;
  const std::vector<StepRow>& steps = run.steps();
  auto step = steps.begin();
  int64_t epoch = 0;
  for (const ProtectionRow& row : run.protections()) {
    for (; step != steps.end() && step->step <= row.step; ++step) {
      epoch = step->epoch;
    }
    ++epochs[epoch][row.gate];
    ++totals[row.gate];
  }
  Json decisions = Json::array(), table = Json::array();
  for (const auto& [action, total] : totals) {
    decisions.push_back({{"name", DescribeGateDecision(action)}, {"total", total}});
  }
  for (const auto& [number, counts] : epochs) {
    Json row = Json::array({number + 1});
    for (const auto& [action, total] : totals) {
      const auto count = counts.find(action);
      row.push_back(count == counts.end() ? 0 : count->second);
    }
    table.push_back(std::move(row));
  }
  return {{"decisions", std::move(decisions)}, {"epochs", std::move(table)}};
}

Json DistributionsJson(const LedgerRun& run) {
  const PartyRecords* party = run.label_party();
  if (party == nullptr || party->distributions.empty()) {
    return Json();
  }
  const int64_t epoch = party->distributions.back().epoch;  // Rows come by epoch.
  Json charts = Json::array();
  for (const auto& [quantity, title] : kQuantities) {
    std::array<int64_t, 2> examples = {0, 0};
    std::array<std::vector<const DistributionRow*>, 2> bins;
    for (const DistributionRow& row : party->distributions) {
      if (row.epoch == epoch && row.quantity == quantity && (row.label == 0 || row.label == 1)) {
        bins[row.label].push_back(&row);
        examples[row.label] += row.examples;
      }
    }
    Json classes = Json::array();
    for (size_t label = 0; label < 2; ++label) {
      classes.push_back(Outline(bins[label], examples[label]));
    }
    if (examples[0] + examples[1] > 0) {
      charts.push_back({{"quantity", quantity}, {"title", title}, {"classes", std::move(classes)}});
    }
  }
  return charts.empty() ? Json() : Json{{"epoch", epoch + 1}, {"charts", std::move(charts)}};
}

namespace {

constexpr int64_t kWindowShare = 20;

std::vector<CurvePoint> Smooth(const std::vector<CurvePoint>& all) {
  const auto size = static_cast<int64_t>(all.size());
  std::vector<double> sums(all.size() + 1, 0);
  for (int64_t i = 0; i < size; ++i) {
    sums[i + 1] = sums[i] + all[i].y;
  }
  // Sums from the start make each window two lookups, whatever its width.
  const int64_t half_window = std::max<int64_t>(1, size / kWindowShare / 2);
  const int64_t count = std::min(size, kMaxLinePoints);
  std::vector<CurvePoint> line;
  for (int64_t k = 0; k < count; ++k) {
    const int64_t center =
        k * (size - 1) / std::max<int64_t>(1, count - 1);  // The first and the last step are on the line.
    const int64_t begin = std::max<int64_t>(0, center - half_window);
    const int64_t end = std::min(size, center + half_window + 1);
    line.push_back({all[center].x, (sums[end] - sums[begin]) / static_cast<double>(end - begin)});
  }
  return line;
}

std::vector<CurvePoint> Thin(const std::vector<CurvePoint>& all) {
  const auto size = static_cast<int64_t>(all.size());
  if (size <= kMaxRawPoints) {
    return all;
  }
  constexpr int64_t kStretches = kMaxRawPoints / 2;
  std::vector<CurvePoint> kept;
  for (int64_t k = 0; k < kStretches; ++k) {
    const auto begin = all.begin() + k * size / kStretches;
    const auto end = all.begin() + (k + 1) * size / kStretches;
    // Both extremes of a stretch stay: a chart that thins outliers away would hide the leak.
    auto [least, largest] =
        std::minmax_element(begin, end, [](const CurvePoint& a, const CurvePoint& b) { return a.y < b.y; });
    kept.push_back(*std::min(least, largest));
    kept.push_back(*std::max(least, largest));
  }
  return kept;
}

Json Points(const std::vector<CurvePoint>& points) {
  Json array = Json::array();
  for (const CurvePoint& point : points) {
    array.push_back(Json::array({static_cast<int64_t>(point.x), NumberJson(point.y)}));
  }
  return array;
}

}  // namespace

Curve MakeCurve(const std::vector<int64_t>& steps, const std::vector<double>& values) {
  std::vector<CurvePoint> all;
  for (size_t i = 0; i < steps.size() && i < values.size(); ++i) {
    if (std::isfinite(values[i])) {
      all.push_back({static_cast<double>(steps[i]), values[i]});
    }
  }
  if (static_cast<int64_t>(all.size()) <= kMaxUnsmoothed) {
    return {std::move(all), {}};
  }
  return {Smooth(all), Thin(all)};
}

Json CurveJson(const std::vector<int64_t>& steps, const std::vector<double>& values) {
  const Curve curve = MakeCurve(steps, values);
  return {{"line", Points(curve.line)}, {"points", Points(curve.points)}};
}

}  // namespace splitveil
