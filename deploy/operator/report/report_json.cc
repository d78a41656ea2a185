#include "deploy/operator/report/report_json.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "deploy/operator/audit/verdict_text.h"
#include "deploy/operator/page/json_values.h"
#include "deploy/operator/records/attack_leak.h"
#include "deploy/operator/records/remedies.h"
#include "deploy/operator/records/run_ranking.h"
#include "deploy/operator/report/attribute_json.h"
#include "deploy/operator/report/curve_json.h"
#include "deploy/operator/report/leak_json.h"
#include "deploy/operator/report/protection_json.h"
#include "deploy/operator/report/report_text.h"
#include "deploy/operator/report/run_chain.h"
#include "deploy/operator/report/run_facts.h"
#include "deploy/operator/report/time_json.h"

#include "common/leakage/attack_words.h"

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
                           {"calibration_error", NumberJson(row.calibration_error)},
                           {"r_squared", NumberJson(row.r_squared)},
                           {"rmse", NumberJson(row.rmse)}});
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

int64_t AuxiliaryLabels(const RunRecords& run) {
  const Json config = Json::parse(run.parties.front().record.run.config_json, nullptr, /*allow_exceptions=*/false);
  const Json::json_pointer path("/agreement/audit/auxiliary_labels");
  const bool known = config.is_object() && config.contains(path) && config[path].is_number_integer();
  return known ? config[path].get<int64_t>() : 0;
}

// One sentence each, the strongest attack on gradients first as in the headline: those without and with side
// information, the strongest that adds up the epochs; then what reads no gradient, and what the model itself adds. An
// attack stands in one of them.
Json AttackSentences(const RunRecords& run, const std::vector<AttackLeak>& leaks, const RunRanking& ranking) {
  Json sentences = Json::array();
  std::set<std::string> told;
  const auto tell = [&](const char* before, const AttackLeak& leak) {
    const std::string words = IsCumulativeAttack(leak.attack) && !leak.epochs.empty()
                                  ? DescribeCumulative(leak, ranking.bound)
                                  : DescribeReach(leak);
    if (!words.empty() && told.insert(leak.attack).second) {
      sentences.push_back(absl::StrCat(before, words));
    }
  };
  const auto tell_ranked = [&](const char* before, const RankedAttack& ranked) {
    for (const AttackLeak& leak : leaks) {
      if (leak.layer == ranked.layer && leak.attack == ranked.attack && leak.observer == ranked.observer) {
        return tell(before, leak);
      }
    }
  };
  if (&ranking.strongest() == &ranking.practical) {
    tell_ranked("Strongest, without side information: ", ranking.practical);
    tell_ranked("Strongest with side information: ", ranking.with_side_information);
  } else {
    tell_ranked("Strongest, with side information: ", ranking.with_side_information);
    tell_ranked("Strongest without side information: ", ranking.practical);
  }
  const bool cumulative =
      IsCumulativeAttack(ranking.practical.attack) || IsCumulativeAttack(ranking.with_side_information.attack);
  for (size_t i = 0; i < leaks.size() && !cumulative; ++i) {  // The strongest first.
    if (IsCumulativeAttack(leaks[i].attack) && !leaks[i].epochs.empty()) {
      tell("Strongest over all epochs: ", leaks[i]);
      break;
    }
  }
  tell_ranked("Without any gradient: ", ranking.no_gradient);
  if (const std::string advantage = DescribeAdvantage(run.epoch_leaks(), AuxiliaryLabels(run)); !advantage.empty()) {
    sentences.push_back(advantage);
  }
  return sentences;
}

// What helps: against the exceeded bound, else against what the strongest attack reaches. Empty where little leaks.
std::string RemedyForRun(const RunRecords& run, const RunRanking& ranking) {
  if (ranking.bound == BoundState::kExceeded) {
    return RemedyForExceededBound(run.protection());
  }
  const RankedAttack& strongest = ranking.strongest();
  if (!strongest.is_measured() || ExposureOf(strongest.auc) == Exposure::kHidden) {
    return "";
  }
  return IsCumulativeAttack(strongest.attack) ? RemedyForCumulativeLeak(run.protection())
                                              : RemedyForLeak(run.protection());
}

Json RunJson(const RunRecords& run, const std::vector<AttackLeak>& leaks, const std::vector<ChartedLayer>& charted) {
  const RunRanking ranking = RankRun(run);
  const RankedAttack& strongest = ranking.strongest();
  const EvaluationRow* best = BestTest(run.evaluations());
  const EvaluationRow* last = LastTest(run.evaluations());
  return {
      {"id", run.run_id()},
      {"label", run.label},
      {"status", run.parties.front().record.status},
      {"is_protected", !run.protection().empty() && run.protection() != "none"},
      {"ranking", RankingJson(ranking)},
      {"verdict", strongest.is_measured()  ? Verdict(ExposureOf(strongest.auc))
                  : run.released_nothing() ? "No gradient left the label party: none to attack"
                                           : "No attack on gradients was measured"},
      {"verdict_without_gradient", VerdictWithoutGradient(ranking)},
      {"task_words", DescribeTask(run.evaluations())},
      {"quality_name", QualityName(run.evaluations())},
      {"test_quality", best != nullptr ? NumberJson(Quality(*best)) : Json()},
      {"final_test_quality", last != nullptr ? NumberJson(Quality(*last)) : Json()},
      {"test_log_loss", best != nullptr ? NumberJson(best->log_loss) : Json()},
      {"test_rmse", best != nullptr ? NumberJson(best->rmse) : Json()},
      {"protection_words",
       run.only_predicts()      ? "Predictions with a model that was trained before: no gradient left the label party."
       : run.released_nothing() ? "Bottom model frozen from the start: no gradient left the label party."
                                : DescribeProtection(run.protection())},
      {"attack_words", AttackSentences(run, leaks, ranking)},
      {"bound_words", DescribeBound(run.protections(), ranking)},
      {"advantage_words", DescribeBaseline(ranking)},
      {"model_words", best != nullptr && run.only_predicts()
                          ? "What is headed \"test\" here is of all rows scored: those that the model was trained on "
                            "flatter it."
                          : DescribeModel(run.evaluations())},
      {"remedy", RemedyForRun(run, ranking)},
      {"leaks", LeaksJson(leaks, run, charted, ranking.baseline)},
      {"cumulative", CumulativeJson(leaks)},
      {"distributions", DistributionsJson(run)},
      {"loss", FieldCurve(run.steps(), &StepRow::loss)},
      {"evaluations", EvaluationsJson(run)},
      {"attributes", AttributesJson(run)},
      {"times", TimesJson(run)},
      {"solver", SolverJson(run)},
      {"gate", GateJson(run)},
      {"events", EventsJson(run)},
      {"parties", PartiesJson(run)}};
}

const char* OutcomeName(Outcome outcome) {
  return outcome == Outcome::kMet ? "pass" : outcome == Outcome::kNotMeasurable ? "open" : "fail";
}

Json VerdictJson(const RunVerdict& verdict) {
  Json findings = Json::array();
  for (const Finding& finding : verdict.findings) {
    findings.push_back({{"outcome", OutcomeName(finding.outcome)},
                        {"criterion", finding.criterion},
                        {"limit", finding.limit},
                        {"found", finding.found},
                        {"where", finding.where},
                        {"ledger", finding.holder_words()}});
  }
  Json remedies = Json::array();
  for (const Remedy& remedy : Remedies(verdict)) {
    remedies.push_back({{"words", remedy.words}, {"criteria", remedy.criteria}});
  }
  return {{"outcome", verdict.met()      ? "pass"
                      : verdict.failed() ? "fail"
                                         : "open"},
          {"lines", RunLines(verdict)},
          {"findings", std::move(findings)},
          {"remedies", std::move(remedies)}};
}

// "68,616 shared ids (own 69,306, peer 69,310)" of "68616 common ids of 69306 own and 69310 of the peer"; what is not
// in that form, as it is.
std::string AlignedIds(const std::string& detail) {
  std::vector<std::string> numbers;
  for (absl::string_view word : absl::StrSplit(detail, ' ')) {
    if (!word.empty() && std::all_of(word.begin(), word.end(), absl::ascii_isdigit)) {
      std::string& number = numbers.emplace_back(word);
      for (int64_t i = static_cast<int64_t>(number.size()) - 3; i > 0; i -= 3) {
        number.insert(static_cast<size_t>(i), ",");
      }
    }
  }
  return numbers.size() == 3 ? absl::StrCat(numbers[0], " shared ids (own ", numbers[1], ", peer ", numbers[2], ")")
                             : detail;
}

// Which data a run trained on, as far as its ledgers say: [name, value].
Json DataJson(const RunRecords& run) {
  const PartyRecords& party = run.parties.front();
  Json facts = {{"Run", run.run_id()}, {"Started", party.record.started_at}};
  for (const EventRecord& event : party.events) {
    if (event.kind == "aligned") {
      facts["Aligned"] = AlignedIds(event.detail);
    }
  }
  facts["Agreement SHA-256"] = party.record.run.agreement_sha256;
  return facts;
}

Json AuditJson(const std::vector<RunRecords>& runs, const AuditReport& audit) {
  Json ledgers = Json::array(), data = Json::array();
  for (const AuditedFile& ledger : audit.subject.ledgers) {
    Json recorded = Json::array();
    for (const RunRecords& run : runs) {
      for (const PartyRecords& party : run.parties) {
        if (party.ledger_name == ledger.name) {
          recorded.push_back(absl::StrCat(DescribeRole(party.record.run.role), ", run ", run.run_id()));
        }
      }
    }
    ledgers.push_back({{"name", ledger.name}, {"sha256", ledger.sha256}, {"holds", std::move(recorded)}});
  }
  for (const RunRecords& run : runs) {
    data.push_back(DataJson(run));
  }
  return {{"outcome", PolicyMet(audit.verdicts)      ? "pass"
                      : PolicyFailed(audit.verdicts) ? "fail"
                                                     : "open"},
          {"words", VerdictSummary(audit.verdicts)},
          {"policy", {{"name", audit.subject.policy.name}, {"sha256", audit.subject.policy.sha256}}},
          {"judged_at", audit.subject.judged_at},
          {"ledgers", std::move(ledgers)},
          {"data", std::move(data)}};
}

}  // namespace

Json ReportJson(const std::vector<RunRecords>& runs, const AuditReport* audit) {
  std::vector<std::vector<AttackLeak>> all_leaks;
  for (const RunRecords& run : runs) {
    all_leaks.push_back(AttackLeaks(run));
  }
  const std::vector<RunChain> chains = FindChains(runs);
  // A verdict stands beside its run.
  const std::vector<size_t> full = RunsInFull(runs, audit == nullptr ? chains : std::vector<RunChain>());
  std::vector<std::vector<AttackLeak>> leaks;
  for (size_t run : full) {
    leaks.push_back(all_leaks[run]);
  }
  const std::vector<ChartedLayer> charted = ChooseCharts(leaks);
  Json all = Json::array();
  for (size_t i = 0; i < full.size(); ++i) {
    all.push_back(RunJson(runs[full[i]], leaks[i], charted));
    if (audit != nullptr && i < audit->verdicts.size()) {
      all.back()["policy"] = VerdictJson(audit->verdicts[i]);
    }
  }
  return {{"thresholds", {{"partly", kPartlyFrom}, {"largely", kLargelyFrom}, {"exposed", kExposedFrom}}},
          {"audit", audit == nullptr ? Json() : AuditJson(runs, *audit)},
          {"charted", ChartedJson(charted)},
          {"phases", PhasesJson()},
          {"glossary", GlossaryJson(all_leaks)},
          {"attribute_glossary", AttributeGlossaryJson(runs)},
          {"days", ChainsJson(runs, all_leaks, chains)},
          {"folded", runs.size() - full.size()},
          {"runs", std::move(all)}};
}

}  // namespace splitveil
