#include "deploy/operator/local_run/finished_run.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "common/status/status_macros.h"

namespace splitveil {
namespace {

using Json = nlohmann::ordered_json;

absl::StatusOr<Json> ParseObject(absl::string_view text) {
  Json json = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return absl::InvalidArgumentError("expected a JSON object");
  }
  return json;
}

std::optional<double> Number(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? std::optional(found->get<double>()) : std::nullopt;
}

std::vector<AttackFigure> Attacks(const Json& leak) {
  std::vector<AttackFigure> attacks;
  for (const auto& [layer, of_layer] : leak.items()) {
    for (const auto& [attack, summary] : of_layer.items()) {
      const bool measured = summary.is_object() && Number(summary, "mean") && Number(summary, "p95");
      if (!measured || attack == "strongest") {  // That names one of the others.
        continue;
      }
      AttackFigure& figure = attacks.emplace_back(AttackFigure{layer, attack});
      figure.batches = {*Number(summary, "mean"), 0, *Number(summary, "p95"), /*steps=*/1};  // How many is not told.
      if (const std::optional<double> pooled = Number(summary, "pooled"); pooled.has_value()) {
        figure.last_epoch.emplace().auc = *pooled;
        figure.last_epoch->tpr_1pct = figure.last_epoch->tpr_01pct = std::nan("");
      }
    }
  }
  std::stable_sort(attacks.begin(), attacks.end(), IsStronger);
  return attacks;
}

}  // namespace

absl::StatusOr<std::string> FinishedRunJson(absl::string_view result_json, const std::string& configuration_sha256,
                                            double seconds) {
  const absl::StatusOr<Json> result = ParseObject(result_json);
  if (!result.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("RESULT: ", result.status().message()));
  }
  Json finished = {{"configuration_sha256", configuration_sha256}, {"seconds", seconds}};
  finished.update(*result);
  return finished.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

absl::StatusOr<RunFigures> ParseFinishedRun(absl::string_view json, const std::string& configuration_sha256) {
  SPLITVEIL_ASSIGN_OR_RETURN(const Json parsed, ParseObject(json));
  const Json& result = parsed;
  const auto digest = result.find("configuration_sha256");
  if (digest == result.end() || !digest->is_string() || !result.contains("steps") || !result["steps"].is_number()) {
    return absl::InvalidArgumentError("expected configuration_sha256 and steps, found neither or one");
  }
  if (digest->get<std::string>() != configuration_sha256) {
    return absl::FailedPreconditionError("expected the result of this configuration, found that of another");
  }
  RunFigures figures;
  figures.test = {Number(result, "test_log_loss"), Number(result, "test_auc"),
                  Number(result, "test_accuracy"), std::nullopt,
                  Number(result, "test_rmse"),     Number(result, "test_r2")};
  figures.final_test.auc = Number(result, "final_test_auc");
  figures.final_test.r_squared = Number(result, "final_test_r2");
  figures.run_auc_bound = Number(result, "run_auc_bound");
  figures.auc_bound_p95 = Number(result, "auc_bound_p95");
  figures.sum_kl_mean = Number(result, "sum_kl_mean");
  figures.steps = result["steps"].get<int64_t>();
  figures.seconds = Number(result, "seconds");
  if (result.contains("leak")) {
    figures.attacks = Attacks(result["leak"]);
  }
  return figures;
}

}  // namespace splitveil
