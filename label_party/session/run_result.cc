#include "label_party/session/run_result.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "common/leakage/bounds.h"
#include "common/leakage/summary.h"
#include "common/ledger/gate_action.h"

namespace splitveil {
namespace {

// JSON knows no NaN: null.
nlohmann::ordered_json Number(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}

double Mean(const std::vector<double>& values) {
  double sum = 0;
  for (double value : values) {
    sum += value;
  }
  return values.empty() ? std::numeric_limits<double>::quiet_NaN() : sum / static_cast<double>(values.size());
}

nlohmann::ordered_json Interval(double low, double high) {
  return nlohmann::ordered_json::array({Number(low), Number(high)});
}

nlohmann::ordered_json EpochLeakJson(const EpochLeakRow& row) {
  return {{"epoch", row.epoch + 1},
          {"examples", row.examples},
          {"auc", Number(row.auc)},
          {"auc_ci95", Interval(row.auc_low, row.auc_high)},
          {"tpr_at_1pct_fpr", Number(row.tpr_1pct)},
          {"tpr_at_1pct_fpr_ci95", Interval(row.tpr_1pct_low, row.tpr_1pct_high)},
          {"tpr_at_01pct_fpr", Number(row.tpr_01pct)},
          {"tpr_at_01pct_fpr_ci95", Interval(row.tpr_01pct_low, row.tpr_01pct_high)},
          {"gaussian_auc_bound", Number(row.gaussian_auc_bound)}};
}

}  // namespace

std::string ResultJson(const RunResult& result, const LeakAuditor& auditor) {
  TestMetrics best;
  best.log_loss = best.auc = best.calibration_error = best.accuracy = std::numeric_limits<double>::quiet_NaN();
  const double final_auc = result.tests.empty() ? best.auc : result.tests.back().auc;
  for (size_t i = 0; i < result.tests.size(); ++i) {
    if (i == 0 || result.tests[i].auc > best.auc) {
      best = result.tests[i];
    }
  }
  nlohmann::ordered_json json;
  json["run_id"] = result.run_id;
  json["resumed_from"] = result.resumed_from;
  json["protection"] = result.protection;
  json["aligned_examples"] = result.aligned_examples;
  json["epochs"] = result.epochs;
  json["steps"] = result.steps;
  json["train_log_loss"] = Number(result.train_log_loss);
  json["test_log_loss"] = Number(best.log_loss);
  json["test_auc"] = Number(best.auc);
  json["test_calibration_error"] = Number(best.calibration_error);
  json["test_accuracy"] = Number(best.accuracy);
  json["best_epoch"] = best.epoch + 1;
  json["final_test_auc"] = Number(final_auc);
  json["train_seconds"] = Number(result.train_seconds);
  json["examples_per_second"] = Number(static_cast<double>(result.trained_examples) / result.train_seconds);
  json["bytes_sent"] = result.bytes_sent;
  json["bytes_received"] = result.bytes_received;
  json["sum_kl_mean"] = Number(Mean(result.sum_kls));
  json["auc_bound_p95"] = result.auc_bounds.empty() ? nullptr : Number(NearestRankQuantile(result.auc_bounds, 0.95));
  json["run_auc_bound"] = Number(GaussianAucBound(result.cumulative_sum_kl));
  json["all_runs_auc_bound"] = Number(GaussianAucBound(result.earlier_sum_kl + result.cumulative_sum_kl));
  json["gate"] = nlohmann::ordered_json::object();
  for (const auto& [action, steps] : result.gate) {
    json["gate"][GateActionName(action)] = steps;
  }
  json["frozen_after_epoch"] =
      result.frozen_after_epoch ? nlohmann::ordered_json(*result.frozen_after_epoch) : nlohmann::ordered_json(nullptr);
  json["bound_exceeded"] = auditor.bound_exceeded();
  json["leak"] = nlohmann::ordered_json::object();
  for (const auto& [key, aucs] : auditor.series()) {
    const LeakSummary summary = SummarizeLeak(aucs);
    json["leak"][key.first][key.second] = {
        {"mean", Number(summary.mean)}, {"mean_ci95", Number(summary.mean_ci95)}, {"p95", Number(summary.p95)}};
  }
  json["epoch_leak"] = nlohmann::ordered_json::object();
  for (const auto& [key, row] : auditor.epoch_leaks()) {
    json["epoch_leak"][key.first][key.second] = EpochLeakJson(row);
  }
  return json.dump();
}

}  // namespace splitveil
