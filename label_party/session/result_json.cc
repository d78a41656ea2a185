#include "label_party/session/result_json.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "common/figures/figure_words.h"
#include "common/figures/json_number.h"
#include "common/leakage/bounds.h"
#include "common/ledger/ledger_rows.h"

namespace splitveil {
namespace {

constexpr double kRoundingError = 1e-9;  // If all AUCs are equal, rounding still gives an interval of some 1e-16.

// JSON has no NaN: a figure that is not known is null.
std::optional<double> Finite(double value) { return std::isfinite(value) ? std::optional(value) : std::nullopt; }

ModelFigures ModelFiguresOf(const TestMetrics& metrics) {
  return {Finite(metrics.log_loss),          Finite(metrics.auc),  Finite(metrics.accuracy),
          Finite(metrics.calibration_error), Finite(metrics.rmse), Finite(metrics.r_squared)};
}

// The test figures of the kept epoch, and of the last one.
void AddModel(const RunResult& result, RunFigures& figures) {
  figures.evaluated = !result.tests.empty();
  if (!figures.evaluated) {
    return;
  }
  const auto kept = static_cast<size_t>(result.kept.index());
  figures.kept_by = KeepName(result.kept.by());
  figures.final_test = ModelFiguresOf(result.tests.back());
  figures.best_epoch = result.tests[kept].epoch + 1;
  figures.test = ModelFiguresOf(result.tests[kept]);
  if (!result.validations.empty()) {
    figures.validation = ModelFiguresOf(result.validations[kept]);
  }
}

void AddOwnFeatures(const RunResult& result, RunFigures& figures) {
  if (!result.own_features.empty()) {
    figures.own_features = ModelFiguresOf(result.own_features.front()).quality();
  }
}

void AddBounds(const RunResult& result, RunFigures& figures) {
  if (!result.auc_bounds.empty()) {
    figures.sum_kl_mean = result.total_sum_kl / static_cast<double>(result.auc_bounds.size());
    figures.auc_bound_p95 = result.auc_bounds.Quantile(0.95);
  }
  if (!result.step_auc_bounds.empty()) {
    figures.step_auc_bound_p95 = result.step_auc_bounds.Quantile(0.95);  // As StepAucBoundP95.
  }
  // Divergences of independent releases add up; only the sum is turned into an AUC.
  // No step says what a part of the first batch may reveal, or what was sent before the run went back.
  const bool is_known = !result.first_slice_sent || !result.auc_bounds.empty() || result.cumulative_sum_kl > 0;
  figures.run_auc_bound = is_known ? result.AucBoundWith(0) : 1;
  // The partner keeps what earlier runs sent, also those that no account counted, or that it has lost: a copy was put
  // back.
  figures.all_runs_auc_bound =
      is_known ? std::max(result.AucBoundWith(result.earlier_sum_kl), result.ledger_auc_bound) : 1;
}

void AddAttacks(const RunResult& result, const LeakAuditor& auditor, RunFigures& figures) {
  const EpochLeaks last_epoch = auditor.epoch_leaks();
  figures.attacks = StrongestFirst(auditor.series(), last_epoch);
  std::vector<EpochLeakRow> rows;
  for (const auto& [key, row] : last_epoch) {
    rows.push_back(row);
    figures.bound_tested |= IsHeldAgainstBound(row);
    AddExcess(row, figures.excesses);
    if (!figures.guessing.has_value() && row.examples > 0 && result.steps > 0) {
      // The share of positives among the examples that the attacks scored.
      figures.guessing =
          GuessingInBatches(static_cast<double>(result.trained_examples) / static_cast<double>(result.steps),
                            static_cast<double>(row.positives) / static_cast<double>(row.examples));
    }
  }
  // Over all attacks that know everything but the label, since the strongest of them is what the bound is about.
  figures.worst_case = WorstCaseOf(rows);
  figures.bound_exceeded = auditor.bound_exceeded();
  // Attacks that exceeded it only in an earlier epoch: a later epoch does not undo it. The ledger has their figures.
  for (const auto& [layer, attack] : auditor.attacks_beyond()) {
    if (std::none_of(figures.excesses.begin(), figures.excesses.end(),
                     [&, &at = layer, &name = attack](const BoundExcess& known) {
                       return known.layer == at && known.attack == name;
                     })) {
      figures.excesses.push_back({layer, attack});
    }
  }
  figures.claim_check = auditor.claim_check();
}

Json GateJson(const RunFigures& figures) {
  Json gate = Json::object();
  for (const auto& [action, steps] : figures.gate) {
    gate[GateActionName(action)] = steps;
  }
  return gate;
}

// The run and its model. Keys are a contract with scripts (deploy/OPERATIONS.md).
Json RunJson(const RunFigures& figures) {
  const ModelFigures& test = figures.test;
  Json json;
  json["run_id"] = figures.run_id;
  json["resumed_from"] = figures.resumed_from;
  json["protection"] = figures.protection;
  json["aligned_examples"] = figures.aligned_examples;
  json["epochs"] = figures.agreed_epochs;
  json["steps"] = figures.steps;
  json["train_log_loss"] = ExactJson(figures.train_log_loss);
  json["test_log_loss"] = ExactJson(test.log_loss);
  json["test_auc"] = ExactJson(test.auc);
  json["test_calibration_error"] = ExactJson(test.calibration_error);
  json["test_accuracy"] = ExactJson(test.accuracy);
  if (test.rmse.has_value()) {  // Regressions only.
    json["test_rmse"] = ExactJson(test.rmse);
    json["test_r2"] = ExactJson(test.r_squared);
    json["final_test_r2"] = ExactJson(figures.final_test.r_squared);
    json["validation_r2"] = ExactJson(figures.validation.r_squared);
  }
  json["best_epoch"] = figures.best_epoch;
  json["best_epoch_chosen_on"] = !figures.evaluated ? Json() : Json(figures.kept_by);
  json["validation_auc"] = ExactJson(figures.validation.auc);
  json["validation_log_loss"] = ExactJson(figures.validation.log_loss);
  json["final_test_auc"] = ExactJson(figures.final_test.auc);
  json["train_seconds"] = ExactJson(figures.seconds);
  json["examples_per_second"] = ExactJson(static_cast<double>(figures.examples) / figures.seconds.value_or(0));
  json["bytes_sent"] = figures.bytes_sent;
  json["bytes_received"] = figures.bytes_received;
  return json;
}

Json LeakFigureJson(const AttackFigure& attack) {
  const double ci95 = attack.batches.mean_ci95;
  Json json = {{"mean", ExactJson(attack.batches.mean)},
               {"mean_ci95", ci95 < kRoundingError ? Json(0) : ExactJson(ci95)},
               {"p95", ExactJson(attack.batches.p95)}};
  if (attack.last_epoch.has_value()) {
    json["pooled"] = InvertedAuc(attack.last_epoch->auc);
  }
  return json;
}

// Null if none was measured.
Json AttackJson(const AttackFigure* attack) {
  return attack == nullptr
             ? Json()
             : Json{{"layer", attack->layer}, {"attack", attack->attack}, {"auc", ExactJson(attack->auc())}};
}

// Over the batches. `all_attacks`: every attack; else norm, cosine and the strongest.
Json LeakJson(const RunFigures& figures, bool all_attacks) {
  Json json = Json::object();
  for (const AttackFigure& attack : figures.attacks) {
    // Cumulative attacks have no figure per batch: they are under epoch_leak.
    if (!attack.has_batches()) {
      continue;
    }
    // Attacks are sorted, so the first one of a layer is its strongest.
    if (!json.contains(attack.layer)) {
      json[attack.layer]["strongest"] = {{"attack", attack.attack}};
      json[attack.layer]["strongest"].update(LeakFigureJson(attack));
    }
    if (all_attacks || attack.attack == "norm" || attack.attack == "cosine") {
      json[attack.layer][attack.attack] = LeakFigureJson(attack);
    }
  }
  return json;
}

Json Interval(double low, double high) { return Json::array({ExactJson(low), ExactJson(high)}); }

Json EpochLeakJson(const EpochLeakRow& row) {
  return {{"epoch", row.epoch + 1},
          {"examples", row.examples},
          {"auc", ExactJson(row.auc)},
          {"auc_ci95", Interval(row.auc_low, row.auc_high)},
          {"tpr_at_1pct_fpr", ExactJson(row.tpr_1pct)},
          {"tpr_at_1pct_fpr_ci95", Interval(row.tpr_1pct_low, row.tpr_1pct_high)},
          {"tpr_at_01pct_fpr", ExactJson(row.tpr_01pct)},
          {"tpr_at_01pct_fpr_ci95", Interval(row.tpr_01pct_low, row.tpr_01pct_high)},
          {"gaussian_auc_bound", ExactJson(row.gaussian_auc_bound)}};
}

// What was released, what it allows, and what runs are ranked by.
void AddLeaks(const RunFigures& figures, bool all_attacks, Json& json) {
  json["sum_kl_mean"] = ExactJson(figures.sum_kl_mean);
  json["auc_bound_p95"] = ExactJson(figures.auc_bound_p95);
  json["run_auc_bound"] = ExactJson(figures.run_auc_bound);
  json["all_runs_auc_bound"] = ExactJson(figures.all_runs_auc_bound);
  json["gate"] = GateJson(figures);
  json["frozen_after_epoch"] = figures.frozen_after_epoch ? Json(*figures.frozen_after_epoch) : Json();
  json["bound_exceeded"] = figures.bound_exceeded;
  json["strongest"] = AttackJson(figures.strongest());
  json["practical"] = AttackJson(figures.practical());
  json["with_side_information"] = AttackJson(figures.with_side_information());
  json["worst_case_tpr_at_1pct_fpr"] =
      figures.worst_case.has_value() ? ExactJson(figures.worst_case->tpr_1pct()) : Json();
  const Guessing guessing = figures.guessing.value_or(Guessing());
  json["guessing"] = {{"mean", ExactJson(guessing.mean)}, {"p95", ExactJson(guessing.p95)}};
  json["bound_kind"] = BoundKindName(figures);
  json["bound_state"] = BoundStateWords(figures, AttackNaming::kName);
  json["leak"] = LeakJson(figures, all_attacks);
}

// Null if the run claims no mu: the key is always there, so that scripts need no case for it.
Json ClaimCheckJson(const std::optional<ClaimCheckRow>& audit) {
  return !audit.has_value() ? Json()
                            : Json{{"claimed_mu", ExactJson(audit->claimed_mu)},
                                   {"mu_lower", ExactJson(audit->mu_lower)},
                                   {"claimed_epsilon", ExactJson(audit->claimed_epsilon)},
                                   {"epsilon_lower", ExactJson(audit->epsilon_lower)},
                                   {"delta", audit->delta},
                                   {"confidence", audit->confidence},
                                   {"test", audit->test},
                                   {"examples", audit->examples},
                                   {"positives", audit->positives},
                                   {"true_positive_rate_low", ExactJson(audit->true_positive_rate_low)},
                                   {"false_positive_rate_high", ExactJson(audit->false_positive_rate_high)},
                                   {"failing_mu_lower", ExactJson(audit->failing_mu_lower)},
                                   {"failing_confidence", audit->failing_confidence},
                                   {"half_noise_mu_lower", ExactJson(audit->half_noise_mu_lower)}};
}

// The three figures of a run and the verdict.
Json StandingJson(const RunFigures& figures) {
  const std::optional<double> proved = figures.proved_auc_bound();
  Json worst_case;
  if (figures.worst_case.has_value()) {
    const EpochLeakRow& row = *figures.worst_case->last_epoch;
    worst_case = AttackJson(&*figures.worst_case);
    worst_case["auc_ci95"] =
        // An AUC below 0.5 is inverted as an adversary would, and its interval with it.
        row.auc < 0.5 ? Interval(1 - row.auc_high, 1 - row.auc_low) : Interval(row.auc_low, row.auc_high);
  }
  Json exceeded_by = Json::array();
  for (const BoundExcess& excess : figures.excesses) {
    exceeded_by.push_back(absl::StrCat(excess.attack, " at ", excess.layer));
  }
  return {{"proved_auc_bound", ExactJson(proved)},
          {"own_features", ExactJson(figures.own_features)},
          {"proved_by", proved.has_value() ? Json("noise on labels") : Json()},
          {"worst_case", std::move(worst_case)},
          {"practical", AttackJson(figures.practical())},
          {"verdict", VerdictWords(figures.verdict())},
          {"exceeded_by", std::move(exceeded_by)}};
}

}  // namespace

RunFigures FiguresOf(const RunResult& result, const LeakAuditor& auditor) {
  RunFigures figures;
  figures.of_label_party = true;
  figures.run_id = result.run_id;
  figures.resumed_from = result.resumed_from;
  figures.ended = result.ended;
  figures.protection = result.protection;
  figures.aligned_examples = result.aligned_examples;
  figures.agreed_epochs = result.epochs;
  figures.epochs = result.steps / result.batches_per_epoch;
  figures.steps = result.steps;
  figures.examples = result.trained_examples;
  figures.seconds = Finite(result.train_seconds);
  figures.bytes_sent = result.bytes_sent;
  figures.bytes_received = result.bytes_received;
  figures.train_log_loss = Finite(result.train_log_loss);
  figures.several_classes = result.task.kind == Task::Kind::kMultiClass;
  figures.gate = result.gate;
  figures.may_have_released = result.first_slice_sent || result.gave_labels || !result.auc_bounds.empty();
  figures.frozen_after_epoch = result.frozen_after_epoch;
  AddModel(result, figures);
  AddOwnFeatures(result, figures);
  AddBounds(result, figures);
  AddAttacks(result, auditor, figures);
  return figures;
}

std::string ResultJson(const RunFigures& figures) {
  Json json = RunJson(figures);
  AddLeaks(figures, /*all_attacks=*/false, json);
  // A line that people and scripts compare: six digits. The file beside the ledger has all of them.
  RoundNumbers(json);
  return json.dump();
}

std::string FullResultJson(const RunFigures& figures) {
  Json json = {{"ended", figures.ended}};
  json.update(RunJson(figures));
  AddLeaks(figures, /*all_attacks=*/true, json);
  json["standing"] = StandingJson(figures);
  json["claim_check"] = ClaimCheckJson(figures.claim_check);
  json["epoch_leak"] = Json::object();
  for (const AttackFigure& attack : figures.attacks) {
    if (attack.last_epoch.has_value()) {
      json["epoch_leak"][attack.layer][attack.attack] = EpochLeakJson(*attack.last_epoch);
    }
  }
  return json.dump();
}

}  // namespace splitveil
