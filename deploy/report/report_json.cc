#include "deploy/report/report_json.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "deploy/report/curve.h"
#include "deploy/report/plain_words.h"

namespace splitveil {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxEvents = 200;  // A run's first and last half of them are shown.

// Five digits are more than a screen shows, and a fraction of the bytes. Null for what is not finite.
Json Number(double value) {
  return std::isfinite(value) ? Json(std::strtod(absl::StrFormat("%.5g", value).c_str(), nullptr)) : Json();
}

Json Points(const std::vector<CurvePoint>& points) {
  Json array = Json::array();
  for (const CurvePoint& point : points) {
    array.push_back(Json::array({static_cast<int64_t>(point.x), Number(point.y)}));
  }
  return array;
}

Json CurveJson(const std::vector<int64_t>& steps, const std::vector<double>& values) {
  const Curve curve = MakeCurve(steps, values);
  return {{"line", Points(curve.line)}, {"points", Points(curve.points)}};
}

// One field of every row against its step.
template <typename Row>
Json FieldCurve(const std::vector<Row>& rows, double Row::*field) {
  std::vector<int64_t> steps;
  std::vector<double> values;
  for (const Row& row : rows) {
    steps.push_back(row.step);
    values.push_back(row.*field);
  }
  return CurveJson(steps, values);
}

// Where the adversary would turn the score round, the curve is turned too. Single batches that point far the other way
// are mirrored, so that the axis from 0.4 to 1 shows every batch at the strength the summary counts.
Json LeakCurve(const LeakSeries& series) {
  const bool reversed = series.summary.mean + series.summary.mean_ci95 < 0.5;
  std::vector<double> shown;
  for (double auc : series.aucs) {
    const double turned = reversed ? 1 - auc : auc;
    shown.push_back(turned < 0.4 ? 1 - turned : turned);
  }
  return CurveJson(series.steps, shown);
}

Json LeaksJson(const RunRecords& run) {
  Json leaks = Json::array();
  for (const LeakSeries* series : run.leaks()) {
    const LeakSummary& summary = series->summary;
    const bool measured = summary.steps > 0;
    leaks.push_back({{"layer", series->layer},
                     {"layer_name", DescribeLayer(series->layer)},
                     {"attack", series->attack},
                     {"observer", series->observer},
                     {"observer_name", DescribeObserver(series->observer)},
                     {"mean", measured ? Number(summary.mean) : Json()},
                     {"ci95", measured ? Number(summary.mean_ci95) : Json()},
                     {"p95", measured ? Number(summary.p95) : Json()},
                     {"exposure", measured ? ExposureName(ExposureOf(summary.p95)) : ""},
                     {"steps", summary.steps},
                     {"words", DescribeLeak(*series)},
                     {"curve", LeakCurve(*series)}});
  }
  return leaks;
}

// Epochs trained when an evaluation was made, from the steps up to it; within 2% of a whole epoch, that epoch.
double EpochsUntil(int64_t step, const std::vector<StepRow>& steps, const std::map<int64_t, int64_t>& steps_of_epoch) {
  const auto after = std::upper_bound(steps.begin(), steps.end(), step,
                                      [](int64_t value, const StepRow& row) { return value < row.step; });
  if (after == steps.begin()) {
    return 0;
  }
  const int64_t epoch = (after - 1)->epoch;
  const auto done = std::count_if(steps.begin(), after, [&](const StepRow& row) { return row.epoch == epoch; });
  const double epochs =
      static_cast<double>(epoch) + static_cast<double>(done) / static_cast<double>(steps_of_epoch.at(epoch));
  return std::abs(epochs - std::round(epochs)) < 0.02 ? std::round(epochs) : epochs;
}

Json EvaluationsJson(const RunRecords& run) {
  std::map<int64_t, int64_t> steps_of_epoch, ordinal_of_step;
  for (const StepRow& row : run.steps()) {
    ++steps_of_epoch[row.epoch];
  }
  for (const EvaluationRow& row : run.evaluations()) {
    ordinal_of_step.emplace(row.step, static_cast<int64_t>(ordinal_of_step.size()) + 1);
  }
  Json evaluations = Json::array();
  for (const EvaluationRow& row : run.evaluations()) {
    const double epoch = run.steps().empty() ? static_cast<double>(ordinal_of_step.at(row.step))
                                             : EpochsUntil(row.step, run.steps(), steps_of_epoch);
    evaluations.push_back({{"epoch", Number(epoch)},
                           {"split", row.split},
                           {"log_loss", Number(row.log_loss)},
                           {"auc", Number(row.auc)},
                           {"accuracy", Number(row.accuracy)},
                           {"calibration_error", Number(row.calibration_error)}});
  }
  return evaluations;
}

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

Json SolverJson(const RunRecords& run) {
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
      solver[field.name] = {{"mean", Number(sum / static_cast<double>(count))},
                            {"curve", FieldCurve(rows, field.field)}};
    }
  }
  return solver;
}

// "release 412 · warn 3".
template <typename Rows, typename Key>
std::string Counts(const Rows& rows, Key key) {
  std::map<std::string, int64_t> counts;
  for (const auto& row : rows) {
    ++counts[row.*key];
  }
  std::string text;
  for (const auto& [name, count] : counts) {
    absl::StrAppend(&text, text.empty() ? "" : " · ", name, " ", count);
  }
  return text;
}

Json EventsJson(const RunRecords& run) {
  Json events = Json::array();
  for (const PartyRecords& party : run.parties) {
    const size_t size = party.events.size();
    for (size_t i = 0; i < size; ++i) {
      if (size > kMaxEvents && i == kMaxEvents / 2) {
        const size_t skipped = size - kMaxEvents;
        events.push_back({{"at", party.events[i].at},
                          {"party", DescribeRole(party.record.run.role)},
                          {"kind", "…"},
                          {"detail", absl::StrCat(skipped, " events not shown here; the ledger holds them")}});
        i += skipped;
      }
      events.push_back({{"at", party.events[i].at},
                        {"party", DescribeRole(party.record.run.role)},
                        {"kind", party.events[i].kind},
                        {"detail", party.events[i].detail}});
    }
  }
  std::stable_sort(events.begin(), events.end(), [](const Json& a, const Json& b) {
    return a["at"].get_ref<const std::string&>() < b["at"].get_ref<const std::string&>();
  });
  return events;
}

std::string Bytes(int64_t bytes) {
  if (bytes < 1000) {
    return absl::StrCat(bytes, " B");
  }
  double value = static_cast<double>(bytes);
  const char* unit = "";
  for (const char* next : {"kB", "MB", "GB", "TB"}) {
    if (value < 1000) {
      break;
    }
    value /= 1000;
    unit = next;
  }
  return absl::StrFormat("%.3g %s", value, unit);
}

// Every leaf of a configuration whose path speaks of a version.
void CollectVersions(const Json& node, const std::string& path, Json& facts) {
  if (node.is_object()) {
    for (const auto& [key, child] : node.items()) {
      CollectVersions(child, path.empty() ? key : absl::StrCat(path, ".", key), facts);
    }
  } else if (absl::StrContains(path, "version") && (node.is_string() || node.is_number())) {
    const std::string name = absl::StrReplaceAll(path, {{"versions.", ""}});
    facts.push_back({name == "version" ? "Version" : absl::StrCat("Version of ", name),
                     node.is_string() ? node.get<std::string>() : node.dump()});
  }
}

std::string Duration(const RunRecord& record) {
  absl::Time started, finished;
  std::string ignored;
  if (!absl::ParseTime(absl::RFC3339_full, record.started_at, &started, &ignored) ||
      !absl::ParseTime(absl::RFC3339_full, record.finished_at, &finished, &ignored)) {
    return "";
  }
  return absl::FormatDuration(absl::Trunc(finished - started, absl::Milliseconds(100)));
}

// Name and value of what is known of a party's run; the page shows both parties side by side.
Json FactsJson(const PartyRecords& party, const Json& config) {
  const RunRecord& record = party.record;
  int64_t examples = 0, sent = 0, received = 0, epochs = 0;
  double seconds = 0;
  for (const StepRow& row : party.steps) {
    examples += row.examples;
    sent += row.bytes_sent;
    received += row.bytes_received;
    epochs = std::max(epochs, row.epoch + 1);
    seconds += std::isfinite(row.seconds) ? row.seconds : 0;
  }
  Json facts = Json::array();
  const auto add = [&facts](const char* name, const std::string& value) {
    if (!value.empty()) {
      facts.push_back({name, value});
    }
  };
  add("Ledger", party.ledger_name);
  add("Protection", record.run.protection);
  add("Status", record.finished_at.empty() ? record.status + " (or ended without a word)" : record.status);
  add("Started", record.started_at);
  add("Finished", record.finished_at);
  add("Duration", Duration(record));
  add("Agreement SHA-256", record.run.agreement_sha256);
  add("Steps", absl::StrCat(party.steps.size(), " in ", epochs, epochs == 1 ? " epoch" : " epochs"));
  add("Examples trained", absl::StrCat(examples));
  add("Training speed",
      seconds > 0 ? absl::StrFormat("%.0f examples/s", static_cast<double>(examples) / seconds) : std::string());
  add("Sent", Bytes(sent));
  add("Received", Bytes(received));
  add("Release gate", Counts(party.protections, &ProtectionRow::gate));
  add("Protection applied", Counts(party.protections, &ProtectionRow::method));
  CollectVersions(config, "", facts);
  return facts;
}

Json PartiesJson(const RunRecords& run) {
  Json parties = Json::array();
  for (const PartyRecords& party : run.parties) {
    const std::string& text = party.record.run.config_json;
    const Json config = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    parties.push_back(
        {{"role", DescribeRole(party.record.run.role)},
         {"facts", FactsJson(party, config)},
         {"config", config.is_discarded() ? text : config.dump(2, ' ', false, Json::error_handler_t::replace)}});
  }
  return parties;
}

// The attack module is the adversary; the label party's audit stands in for a layer and attack it did not score.
Json AttackSentences(const RunRecords& run) {
  std::map<std::pair<std::string, std::string>, const LeakSeries*> told;
  std::vector<const LeakSeries*> order;
  for (const LeakSeries* series : run.leaks()) {
    const LeakSeries*& chosen = told[{series->layer, series->attack}];
    if (chosen == nullptr) {
      order.push_back(series);
    }
    if (chosen == nullptr || series->observer == "nonlabel_party") {
      chosen = series;
    }
  }
  Json sentences = Json::array();
  for (const LeakSeries* series : order) {
    sentences.push_back(DescribeLeak(*told[{series->layer, series->attack}]));
  }
  return sentences;
}

Json RunJson(const RunRecords& run) {
  double strongest = 0;
  for (const LeakSeries* series : run.leaks()) {
    strongest = std::max(strongest, series->summary.steps > 0 ? series->summary.p95 : 0);
  }
  const bool measured = strongest > 0;
  const EvaluationRow* best = BestTest(run.evaluations());
  return {{"id", run.run_id()},
          {"label", run.label},
          {"status", run.parties.front().record.status},
          {"exposure", measured ? ExposureName(ExposureOf(strongest)) : ""},
          {"verdict", measured ? Verdict(ExposureOf(strongest)) : "No attack was measured"},
          {"strongest_p95", measured ? Number(strongest) : Json()},
          {"test_auc", best != nullptr ? Number(best->auc) : Json()},
          {"test_log_loss", best != nullptr ? Number(best->log_loss) : Json()},
          {"protection_words", DescribeProtection(run.protection())},
          {"attack_words", AttackSentences(run)},
          {"bound_words", DescribeBound(run.protections())},
          {"model_words", DescribeModel(run.evaluations())},
          {"leaks", LeaksJson(run)},
          {"loss", FieldCurve(run.steps(), &StepRow::loss)},
          {"evaluations", EvaluationsJson(run)},
          {"solver", SolverJson(run)},
          {"events", EventsJson(run)},
          {"parties", PartiesJson(run)}};
}

}  // namespace

std::string ReportJson(const std::vector<RunRecords>& runs) {
  Json all = Json::array();
  for (const RunRecords& run : runs) {
    all.push_back(RunJson(run));
  }
  const Json report = {{"thresholds", {{"partly", kPartlyFrom}, {"largely", kLargelyFrom}, {"exposed", kExposedFrom}}},
                       {"runs", std::move(all)}};
  return absl::StrReplaceAll(report.dump(-1, ' ', false, Json::error_handler_t::replace),
                             {{"<", "\\u003c"}, {">", "\\u003e"}, {"&", "\\u0026"}});
}

}  // namespace splitveil
