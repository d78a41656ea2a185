#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "deploy/operator/report/report_sections.h"
#include "deploy/operator/report/report_text.h"

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

}  // namespace splitveil
