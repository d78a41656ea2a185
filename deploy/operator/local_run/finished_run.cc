#include "deploy/operator/local_run/finished_run.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

#include "common/status/status_macros.h"

namespace splitveil {
namespace {

using Json = nlohmann::ordered_json;

absl::StatusOr<Json> ParseObject(absl::string_view text) {
  Json json = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return absl::InvalidArgumentError("expected a JSON object, found something else");
  }
  return json;
}

// NaN where the key is absent or null: a number that does not exist.
double Number(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : std::numeric_limits<double>::quiet_NaN();
}

std::vector<LeakPoint> Leaks(const Json& leak) {
  std::vector<LeakPoint> leaks;
  for (const auto& [layer, attacks] : leak.items()) {
    for (const auto& [attack, summary] : attacks.items()) {
      if (summary.is_object() && attack != "strongest") {  // That names one of the others.
        leaks.push_back({layer, attack, Number(summary, "mean"), Number(summary, "p95")});
      }
    }
  }
  return leaks;
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
  figures.is_regression = result.contains("test_r2");
  figures.test_quality = Number(result, figures.is_regression ? "test_r2" : "test_auc");
  figures.final_test_quality = Number(result, figures.is_regression ? "final_test_r2" : "final_test_auc");
  figures.test_loss = Number(result, figures.is_regression ? "test_rmse" : "test_log_loss");
  figures.run_auc_bound = Number(result, "run_auc_bound");
  figures.auc_bound_p95 = Number(result, "auc_bound_p95");
  figures.sum_kl_mean = Number(result, "sum_kl_mean");
  figures.steps = result["steps"].get<int64_t>();
  figures.seconds = Number(result, "seconds");
  if (const auto strongest = result.find("strongest"); strongest != result.end() && strongest->is_object()) {
    figures.strongest_auc = Number(*strongest, "auc");
  }
  if (result.contains("leak")) {
    figures.leaks = Leaks(result["leak"]);
  }
  return figures;
}

}  // namespace splitveil
