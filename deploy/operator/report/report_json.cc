#include "deploy/operator/report/report_json.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "deploy/operator/audit/verdict_text.h"
#include "deploy/operator/report/attack_leak.h"
#include "deploy/operator/report/attack_words.h"
#include "deploy/operator/report/json_values.h"
#include "deploy/operator/report/leak_json.h"
#include "deploy/operator/report/plain_words.h"
#include "deploy/operator/report/protection_json.h"
#include "deploy/operator/report/run_chain.h"
#include "deploy/operator/report/run_facts.h"
#include "deploy/operator/report/time_json.h"

namespace splitveil {
namespace {

constexpr size_t kMaxEvents = 200;  // A run's first and last half of them are shown.

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
    evaluations.push_back({{"epoch", NumberJson(epoch)},
                           {"split", row.split},
                           {"log_loss", NumberJson(row.log_loss)},
                           {"auc", NumberJson(row.auc)},
                           {"accuracy", NumberJson(row.accuracy)},
                           {"calibration_error", NumberJson(row.calibration_error)}});
  }
  return evaluations;
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

// The strongest attack on batches at each layer, what remembering adds, and what the model itself gives away.
Json AttackSentences(const RunRecords& run, const std::vector<AttackLeak>& leaks) {
  Json sentences = Json::array();
  const EpochLeakRow* remembering = nullptr;
  const std::string* layer = nullptr;
  for (const AttackLeak& leak : leaks) {  // By layer, the strongest first.
    if (leak.has_batches() && (layer == nullptr || *layer != leak.layer)) {
      sentences.push_back(DescribeLeak(*leak.series));
      layer = &leak.layer;
    }
    if (remembering == nullptr && absl::StartsWith(leak.attack, "cumulative_") && !leak.epochs.empty()) {
      remembering = leak.epochs.back();
    }
  }
  if (remembering != nullptr) {
    sentences.push_back(DescribeCumulative(*remembering));
  }
  const Json config = Json::parse(run.parties.front().record.run.config_json, nullptr, /*allow_exceptions=*/false);
  const Json::json_pointer path("/agreement/audit/auxiliary_labels");
  const bool known = config.is_object() && config.contains(path) && config[path].is_number_integer();
  const std::string advantage = DescribeAdvantage(run.epoch_leaks(), known ? config[path].get<int64_t>() : 0);
  if (!advantage.empty()) {
    sentences.push_back(advantage);
  }
  return sentences;
}

// Where measured and promised disagree, in words: by the rows of the epochs, else by the label party's events alone.
Json BeyondBoundSentences(const RunRecords& run) {
  Json sentences = Json::array();
  for (const EpochLeakRow& row : run.epoch_leaks()) {
    if (ExceedsBound(row)) {
      sentences.push_back(DescribeBeyondBound(row));
    }
  }
  const bool by_rows = !sentences.empty();
  for (const PartyRecords& party : run.parties) {
    for (const EventRecord& event : party.events) {
      if (event.kind == "bound_exceeded" && !by_rows && sentences.size() < kMaxEvents) {
        sentences.push_back(event.detail);
      }
    }
  }
  return sentences;
}

const AttackLeak* Strongest(const std::vector<AttackLeak>& leaks) {
  const AttackLeak* strongest = nullptr;
  for (const AttackLeak& leak : leaks) {
    if (!UsesGivenLabels(leak.attack) && leak.exposure() > (strongest == nullptr ? 0 : strongest->exposure())) {
      strongest = &leak;
    }
  }
  return strongest;
}

Json RunJson(const RunRecords& run, const std::vector<AttackLeak>& leaks, const std::vector<ChartedLayer>& charted) {
  const AttackLeak* strongest = Strongest(leaks);
  const EvaluationRow* best = BestTest(run.evaluations());
  const Exposure exposure = strongest != nullptr ? ExposureOf(strongest->exposure()) : Exposure::kHidden;
  return {{"id", run.run_id()},
          {"label", run.label},
          {"status", run.parties.front().record.status},
          {"exposure", strongest != nullptr ? ExposureName(exposure) : ""},
          {"verdict", strongest != nullptr ? Verdict(exposure) : "No attack was measured"},
          {"strongest", strongest != nullptr ? NumberJson(strongest->exposure()) : Json()},
          {"strongest_words", strongest != nullptr
                                  ? absl::StrCat(AttackTitle(strongest->attack), ", ", DescribeLayer(strongest->layer))
                                  : std::string()},
          {"test_auc", best != nullptr ? NumberJson(best->auc) : Json()},
          {"test_log_loss", best != nullptr ? NumberJson(best->log_loss) : Json()},
          {"protection_words", DescribeProtection(run.protection())},
          {"attack_words", AttackSentences(run, leaks)},
          {"bound_words", DescribeBound(run.protections())},
          {"model_words", DescribeModel(run.evaluations())},
          {"beyond_bound", BeyondBoundSentences(run)},
          {"leaks", LeaksJson(leaks, run, charted)},
          {"remembering", CumulativeJson(leaks)},
          {"distributions", DistributionsJson(run)},
          {"loss", FieldCurve(run.steps(), &StepRow::loss)},
          {"evaluations", EvaluationsJson(run)},
          {"times", TimesJson(run)},
          {"solver", SolverJson(run)},
          {"gate", GateJson(run)},
          {"events", EventsJson(run)},
          {"parties", PartiesJson(run)}};
}

Json VerdictJson(const RunVerdict& verdict) {
  Json findings = Json::array();
  for (const Finding& finding : verdict.findings) {
    findings.push_back({{"met", finding.outcome == Outcome::kMet},
                        {"criterion", finding.criterion},
                        {"limit", finding.limit},
                        {"found", finding.found},
                        {"where", finding.where}});
  }
  return {{"met", verdict.met()}, {"findings", std::move(findings)}};
}

}  // namespace

std::string ReportJson(const std::vector<RunRecords>& runs, const std::vector<RunVerdict>& verdicts) {
  std::vector<std::vector<AttackLeak>> all_leaks;
  for (const RunRecords& run : runs) {
    all_leaks.push_back(AttackLeaks(run));
  }
  const std::vector<RunChain> chains = FindChains(runs);
  // A verdict stands beside its run.
  const std::vector<size_t> full = RunsInFull(runs, verdicts.empty() ? chains : std::vector<RunChain>());
  std::vector<std::vector<AttackLeak>> leaks;
  for (size_t run : full) {
    leaks.push_back(all_leaks[run]);
  }
  const std::vector<ChartedLayer> charted = ChooseCharts(leaks);
  Json all = Json::array();
  for (size_t i = 0; i < full.size(); ++i) {
    all.push_back(RunJson(runs[full[i]], leaks[i], charted));
    if (i < verdicts.size()) {
      all.back()["policy"] = VerdictJson(verdicts[i]);
    }
  }
  const Json report = {
      {"thresholds", {{"partly", kPartlyFrom}, {"largely", kLargelyFrom}, {"exposed", kExposedFrom}}},
      {"policy", verdicts.empty() ? Json() : Json{{"met", PolicyMet(verdicts)}, {"words", VerdictSummary(verdicts)}}},
      {"charted", ChartedJson(charted)},
      {"phases", PhasesJson()},
      {"glossary", GlossaryJson(all_leaks)},
      {"days", ChainsJson(runs, all_leaks, chains)},
      {"folded", runs.size() - full.size()},
      {"runs", std::move(all)}};
  return absl::StrReplaceAll(report.dump(-1, ' ', false, Json::error_handler_t::replace),
                             {{"<", "\\u003c"}, {">", "\\u003e"}, {"&", "\\u0026"}});
}

}  // namespace splitveil
