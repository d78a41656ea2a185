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

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "deploy/report/curve.h"
#include "deploy/report/plain_words.h"
#include "deploy/report/run_facts.h"

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

// Epochs trained after `batches` steps; near a whole epoch, that epoch.
double EpochsAfter(int64_t batches, const std::vector<StepRow>& steps,
                   const std::map<int64_t, int64_t>& steps_of_epoch) {
  const auto after = std::lower_bound(steps.begin(), steps.end(), batches,
                                      [](const StepRow& row, int64_t value) { return row.step < value; });
  if (after == steps.begin()) {
    return 0;
  }
  const int64_t epoch = (after - 1)->epoch;
  const auto done = std::count_if(steps.begin(), after, [&](const StepRow& row) { return row.epoch == epoch; });
  const double epochs =
      static_cast<double>(epoch) + static_cast<double>(done) / static_cast<double>(steps_of_epoch.at(epoch));
  return std::abs(epochs - std::round(epochs)) < 0.05 ? std::round(epochs) : epochs;
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
                                             : EpochsAfter(row.step, run.steps(), steps_of_epoch);
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

Json PartiesJson(const RunRecords& run) {
  Json parties = Json::array();
  for (const PartyRecords& party : run.parties) {
    const std::string& text = party.record.run.config_json;
    const Json config = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    Json facts = Json::array();
    for (const Fact& fact : RunFacts(party)) {
      facts.push_back(Json::array({fact.name, fact.value}));
    }
    parties.push_back(
        {{"role", DescribeRole(party.record.run.role)},
         {"facts", std::move(facts)},
         {"config", config.is_discarded() ? text : config.dump(2, ' ', false, Json::error_handler_t::replace)}});
  }
  return parties;
}

// One a layer and attack: the adversary's figures, or those of the label party's audit where it did not score.
Json AttackSentences(const RunRecords& run) {
  Json sentences = Json::array();
  const LeakSeries* last = nullptr;
  for (const LeakSeries* series : run.leaks()) {
    if (last == nullptr || last->layer != series->layer || last->attack != series->attack) {
      sentences.push_back(DescribeLeak(*series));
    }
    last = series;
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
