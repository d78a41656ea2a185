#include "label_party/session/result_json.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/leakage/attack_rank.h"
#include "common/leakage/attack_traits.h"
#include "common/leakage/bound_basis.h"
#include "common/leakage/bounds.h"
#include "common/leakage/guessing.h"
#include "common/leakage/run_standing.h"
#include "common/leakage/summary.h"
#include "common/ledger/gate_action.h"

namespace splitveil {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr double kRoundingError = 1e-9;  // Batches whose AUCs are equal leave an interval of some 1e-16.

// JSON knows no NaN: null.
Json Number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

// Every float at six significant digits: what a person compares, and no 0.9999999999999882.
void Round(Json& json) {
  if (json.is_number_float()) {
    json = std::strtod(absl::StrFormat("%.6g", json.get<double>()).c_str(), nullptr);
  } else if (json.is_structured()) {
    for (Json& element : json) {
      Round(element);
    }
  }
}

// What epochs are ranked by: AUC, or, of numbers, R^2.
double RankedBy(const TestMetrics& metrics) { return std::isnan(metrics.rmse) ? metrics.auc : metrics.r_squared; }

TestMetrics NoMetrics() {
  TestMetrics none;
  none.log_loss = none.auc = none.calibration_error = none.accuracy = kNone;
  return none;
}

// The best epoch by the validation part, or without one by the test part, with the metrics of both. NaNs where nothing
// was evaluated.
struct BestEpoch {
  TestMetrics test = NoMetrics(), validation = NoMetrics();
};
BestEpoch BestOf(const RunResult& result) {
  const std::vector<TestMetrics>& choosing = result.choosing();
  size_t best = 0;
  for (size_t i = 1; i < choosing.size(); ++i) {
    if (RankedBy(choosing[i]) > RankedBy(choosing[best]) || std::isnan(RankedBy(choosing[best]))) {
      best = i;
    }
  }
  BestEpoch epoch;
  if (!choosing.empty()) {
    epoch.test = result.tests[best];
    epoch.validation = result.validations.empty() ? NoMetrics() : result.validations[best];
  }
  return epoch;
}

// Null where nothing was evaluated.
Json ChosenBy(const RunResult& result) {
  return result.tests.empty() ? Json(nullptr) : Json(result.validations.empty() ? "test" : "validation");
}

double FinalTestAuc(const RunResult& result) { return result.tests.empty() ? kNone : result.tests.back().auc; }

// All but the leaks.
Json FiguresJson(const RunResult& result, const LeakAuditor& auditor) {
  const BestEpoch epoch = BestOf(result);
  const TestMetrics& best = epoch.test;
  Json json;
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
  if (!std::isnan(best.rmse)) {  // Of numbers alone.
    json["test_rmse"] = Number(best.rmse);
    json["test_r2"] = Number(best.r_squared);
    json["final_test_r2"] = Number(result.tests.back().r_squared);
    json["validation_r2"] = Number(epoch.validation.r_squared);
  }
  json["best_epoch"] = best.epoch + 1;
  json["best_epoch_chosen_on"] = ChosenBy(result);
  json["validation_auc"] = Number(epoch.validation.auc);
  json["validation_log_loss"] = Number(epoch.validation.log_loss);
  json["final_test_auc"] = Number(FinalTestAuc(result));
  json["train_seconds"] = Number(result.train_seconds);
  json["examples_per_second"] = Number(static_cast<double>(result.trained_examples) / result.train_seconds);
  json["bytes_sent"] = result.bytes_sent;
  json["bytes_received"] = result.bytes_received;
  const StepSeries& bounds = result.auc_bounds;
  json["sum_kl_mean"] = bounds.empty() ? nullptr : Number(result.total_sum_kl / static_cast<double>(bounds.size()));
  json["auc_bound_p95"] = bounds.empty() ? nullptr : Number(bounds.Quantile(0.95));
  json["run_auc_bound"] = Number(GaussianAucBound(result.cumulative_sum_kl));
  json["all_runs_auc_bound"] = Number(GaussianAucBound(result.earlier_sum_kl + result.cumulative_sum_kl));
  json["gate"] = Json::object();
  for (const auto& [action, steps] : result.gate) {
    json["gate"][GateActionName(action)] = steps;
  }
  json["frozen_after_epoch"] = result.frozen_after_epoch ? Json(*result.frozen_after_epoch) : Json(nullptr);
  json["bound_exceeded"] = auditor.bound_exceeded();
  return json;
}

Json LeakFigureJson(const MeasuredAttack& leak) {
  const double ci95 = leak.batches.mean_ci95;
  Json json = {{"mean", Number(leak.batches.mean)},
               {"mean_ci95", ci95 < kRoundingError ? Json(0) : Number(ci95)},
               {"p95", Number(leak.batches.p95)}};
  if (std::isfinite(leak.pooled_auc)) {
    json["pooled"] = InvertedAuc(leak.pooled_auc);
  }
  return json;
}

// As the report ranks them.
std::vector<MeasuredAttack> Leaks(const LeakAuditor& auditor) {
  PooledAucByAttack pooled;
  for (const auto& [key, row] : auditor.epoch_leaks()) {
    pooled[key] = row.auc;
  }
  return StrongestFirst(auditor.series(), pooled);
}

// Over the run's mean batch; the share of positives is that of the examples that the attacks scored.
Guessing GuessingOfRun(const RunResult& result, const LeakAuditor& auditor) {
  for (const auto& [key, row] : auditor.epoch_leaks()) {
    if (row.examples > 0 && result.steps > 0) {
      const double batch = static_cast<double>(result.trained_examples) / static_cast<double>(result.steps);
      const double share = static_cast<double>(row.positives) / static_cast<double>(row.examples);
      return GuessingOver(batch * share, batch * (1 - share));
    }
  }
  return {};
}

// Null where none was measured.
Json AttackJson(const MeasuredAttack* attack) {
  return attack == nullptr ? Json(nullptr)
                           : Json{{"layer", attack->layer}, {"attack", attack->attack}, {"auc", Number(attack->auc())}};
}

// `all_attacks`: or norm, cosine and the strongest.
Json LeakJson(const LeakAuditor& auditor, bool all_attacks) {
  Json json = Json::object();
  for (const MeasuredAttack& leak : Leaks(auditor)) {
    if (!json.contains(leak.layer)) {
      json[leak.layer]["strongest"] = {{"attack", leak.attack}};
      json[leak.layer]["strongest"].update(LeakFigureJson(leak));
    }
    if (all_attacks || leak.attack == "norm" || leak.attack == "cosine") {
      json[leak.layer][leak.attack] = LeakFigureJson(leak);
    }
  }
  return json;
}

Json Interval(double low, double high) { return Json::array({Number(low), Number(high)}); }

Json EpochLeakJson(const EpochLeakRow& row) {
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

// The row of the cumulative attack where it ran; examples 0 where neither did.
EpochLeakRow WorstCase(const EpochLeaks& leaks) {
  for (v1::Attack attack : {v1::CUMULATIVE_CONDITIONAL_LIKELIHOOD_RATIO, v1::CONDITIONAL_LIKELIHOOD_RATIO}) {
    const auto found = leaks.find({"cut", AttackName(attack)});
    if (found != leaks.end() && std::isfinite(found->second.auc)) {
      return found->second;
    }
  }
  return {};
}

void AddBoundState(const LeakAuditor& auditor, RunSummary& summary) {
  summary.bound_exceeded = auditor.bound_exceeded();
  const EpochLeaks leaks = auditor.epoch_leaks();
  std::vector<std::pair<double, std::string>> exceeding;  // By the AUC that is certain.
  for (const auto& [key, row] : leaks) {
    if (row.observer != "label_party" || !std::isfinite(row.auc_low) || !std::isfinite(row.gaussian_auc_bound)) {
      continue;
    }
    summary.bound_tested = true;
    const double certain = CertainAuc(row.auc, row.auc_low, row.auc_high);
    if (ExceedsGaussianAucBound(certain, row.gaussian_auc_bound)) {
      exceeding.emplace_back(-certain, absl::StrCat(row.attack, " at ", row.layer));
    }
  }
  std::sort(exceeding.begin(), exceeding.end());
  for (auto& [certain, place] : exceeding) {
    summary.exceeded_by.push_back(std::move(place));
  }
  summary.worst_case = WorstCase(leaks);
  summary.claim_check = auditor.claim_check();
}

// What runs are ranked by.
void AddRanking(const RunResult& result, const LeakAuditor& auditor, Json& json) {
  const RunSummary summary = Summarize(result, auditor);
  const StrongestOnGradients strongest = StrongestOf(summary.leaks);
  json["strongest"] = AttackJson(strongest.strongest());
  json["practical"] = AttackJson(strongest.practical);
  json["with_side_information"] = AttackJson(strongest.with_side_information);
  json["guessing"] = {{"mean", Number(summary.guessing.mean)}, {"p95", Number(summary.guessing.p95)}};
  const RunClaim claim = ClaimOf(summary);
  json["bound_kind"] = !claim.states_bound() ? "none" : IsBoundProved(summary.protection) ? "proved" : "conditional";
  json["bound_state"] = claim.states_bound() ? BoundState(summary) : "none stated";
}

// Of all runs alike: null where the figure does not exist.
Json ClaimCheckJson(const std::optional<ClaimCheckRow>& audit) {
  return !audit.has_value() ? Json(nullptr)
                            : Json{{"claimed_mu", Number(audit->claimed_mu)},
                                   {"mu_lower", Number(audit->mu_lower)},
                                   {"claimed_epsilon", Number(audit->claimed_epsilon)},
                                   {"epsilon_lower", Number(audit->epsilon_lower)},
                                   {"delta", audit->delta},
                                   {"confidence", audit->confidence},
                                   {"test", audit->test},
                                   {"examples", audit->examples},
                                   {"positives", audit->positives},
                                   {"true_positive_rate_low", Number(audit->true_positive_rate_low)},
                                   {"false_positive_rate_high", Number(audit->false_positive_rate_high)},
                                   {"failing_mu_lower", Number(audit->failing_mu_lower)},
                                   {"failing_confidence", audit->failing_confidence},
                                   {"half_noise_mu_lower", Number(audit->half_noise_mu_lower)}};
}

// The three figures of a run and the verdict.
Json StandingJson(const RunSummary& summary) {
  const RunClaim claim = ClaimOf(summary);
  const bool proved = IsBoundProved(summary.protection) && claim.states_run_bound();
  const EpochLeakRow& worst = summary.worst_case;
  return {{"proved_auc_bound", proved ? Number(summary.run_auc_bound) : Json(nullptr)},
          {"proved_by", proved ? Json("noise on labels") : Json(nullptr)},
          {"worst_case", worst.examples == 0
                             ? Json(nullptr)
                             : Json{{"layer", worst.layer},
                                    {"attack", worst.attack},
                                    {"auc", Number(InvertedAuc(worst.auc))},
                                    {"auc_ci95", worst.auc < 0.5 ? Interval(1 - worst.auc_high, 1 - worst.auc_low)
                                                                 : Interval(worst.auc_low, worst.auc_high)}}},
          {"practical", AttackJson(StrongestOf(summary.leaks).practical)},
          {"verdict", StandingWords(StandingOf(claim))},
          {"exceeded_by", summary.exceeded_by}};
}

}  // namespace

std::string ResultJson(const RunResult& result, const LeakAuditor& auditor) {
  Json json = FiguresJson(result, auditor);
  AddRanking(result, auditor, json);
  json["leak"] = LeakJson(auditor, /*all_attacks=*/false);
  Round(json);
  return json.dump();
}

std::string FullResultJson(const RunResult& result, const LeakAuditor& auditor) {
  Json json = {{"ended", result.ended}};
  json.update(FiguresJson(result, auditor));
  AddRanking(result, auditor, json);
  const RunSummary summary = Summarize(result, auditor);
  json["standing"] = StandingJson(summary);
  json["claim_check"] = ClaimCheckJson(summary.claim_check);
  json["leak"] = LeakJson(auditor, /*all_attacks=*/true);
  json["epoch_leak"] = Json::object();
  for (const auto& [key, row] : auditor.epoch_leaks()) {
    json["epoch_leak"][key.first][key.second] = EpochLeakJson(row);
  }
  return json.dump();
}

RunSummary Summarize(const RunResult& result, const LeakAuditor& auditor) {
  const BestEpoch epoch = BestOf(result);
  const TestMetrics& best = epoch.test;
  RunSummary summary;
  summary.party = "label party";
  summary.run_id = result.run_id;
  summary.ended = result.ended;
  summary.protection = result.protection;
  summary.epochs = result.steps / result.batches_per_epoch;
  summary.agreed_epochs = result.epochs;
  summary.steps = result.steps;
  summary.examples = result.trained_examples;
  summary.seconds = result.train_seconds;
  summary.bytes_sent = result.bytes_sent;
  summary.bytes_received = result.bytes_received;
  summary.task = result.task;
  summary.test_auc = best.auc;
  summary.test_log_loss = best.log_loss;
  summary.test_accuracy = best.accuracy;
  summary.test_rmse = best.rmse;
  summary.test_r_squared = best.r_squared;
  summary.best_epoch = best.epoch + 1;
  summary.best_on_validation = !result.validations.empty();
  summary.final_test_auc = FinalTestAuc(result);
  summary.final_test_r_squared = result.tests.empty() ? kNone : result.tests.back().r_squared;
  summary.run_auc_bound = GaussianAucBound(result.cumulative_sum_kl);
  if (!result.step_auc_bounds.empty()) {
    summary.step_auc_bound_p95 = result.step_auc_bounds.Quantile(0.95);  // As StepAucBoundP95.
  }
  if (result.earlier_sum_kl > 0) {
    summary.all_runs_auc_bound = GaussianAucBound(result.earlier_sum_kl + result.cumulative_sum_kl);
  }
  AddBoundState(auditor, summary);
  for (const auto& [action, steps] : result.gate) {
    summary.gate.emplace_back(GateActionName(action), steps);
  }
  summary.leaks = Leaks(auditor);
  summary.guessing = GuessingOfRun(result, auditor);
  return summary;
}

RunReport Report(const RunResult& result, const LeakAuditor& auditor) {
  return {ResultJson(result, auditor), FullResultJson(result, auditor), Summarize(result, auditor)};
}

}  // namespace splitveil
