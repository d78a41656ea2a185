#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "deploy/operator/records/ledger_figures.h"
#include "deploy/operator/report/report_sections.h"

#include "common/figures/attack_catalogue.h"
#include "common/leakage/summary.h"
#include "common/ledger/ledger_rows.h"

namespace splitveil {
namespace {

constexpr size_t kMaxEvents = 200;  // A run's first and last half of them are shown.

// A name and what it stands for.
struct Fact {
  std::string name, value;
};

// "release 412 · warn 3": of the steps by themselves, and of those that are summarised.
template <typename NameOf>
std::string Counts(const PartyRecords& party, NameOf name_of) {
  std::map<std::string, int64_t> counts;
  for (const StepSummaryRow& row : party.removed_steps) {
    if (!row.method.empty()) {
      counts[name_of(row)] += row.steps;
    }
  }
  for (const ProtectionRow& row : party.protections) {
    ++counts[name_of(row)];
  }
  std::string text;
  for (const auto& [name, count] : counts) {
    absl::StrAppend(&text, text.empty() ? "" : " · ", name, " ", count);
  }
  return text;
}

std::string Bytes(int64_t bytes) {
  const char* const units[] = {"B", "kB", "MB", "GB", "TB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1000 && unit + 1 < std::size(units); ++unit) {
    value /= 1000;
  }
  return absl::StrFormat("%.3g %s", value, units[unit]);
}

// Every leaf of a configuration whose path speaks of a version.
void CollectVersions(const Json& node, const std::string& path, std::vector<Fact>& facts) {
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
  return absl::FormatDuration(absl::Trunc(finished - started, absl::Milliseconds(1)));
}

std::vector<Fact> RunFacts(const PartyRecords& party) {
  const RunRecord& record = party.record;
  EpochStepsRow all;
  for (const EpochStepsRow& row : party.epochs) {
    all.steps += row.steps;
    all.examples += row.examples;
    all.bytes_sent += row.bytes_sent;
    all.bytes_received += row.bytes_received;
    all.epoch = std::max(all.epoch, row.epoch + 1);
    all.seconds += row.seconds;
  }
  std::vector<Fact> facts;
  const auto add = [&facts](const char* name, std::string value) {
    if (!value.empty()) {
      facts.push_back({name, std::move(value)});
    }
  };
  add("Ledger", party.ledger_name);
  add("Protection", record.run.protection);
  add("Continues run", record.run.resumed_from);
  // A process that was killed cannot record its end.
  add("Status", record.finished_at.empty() ? record.status + " (or ended without a word)" : record.status);
  add("Started", record.started_at);
  add("Finished", record.finished_at);
  add("Duration", Duration(record));
  add("Agreement SHA-256", record.run.agreement_sha256);
  add("Steps", absl::StrCat(all.steps, " in ", all.epoch, all.epoch == 1 ? " epoch" : " epochs"));
  add("Charts of steps", party.missing_steps());
  add("Examples trained", absl::StrCat(all.examples));
  add("Training speed", all.seconds > 0
                            ? absl::StrFormat("%.0f examples/s", static_cast<double>(all.examples) / all.seconds)
                            : std::string());
  add("Sent", Bytes(all.bytes_sent));
  add("Received", Bytes(all.bytes_received));
  add("Release gate", Counts(party, [](const auto& row) { return GateActionName(row.gate); }));
  add("Protection applied", Counts(party, [](const auto& row) { return row.method; }));
  CollectVersions(Json::parse(record.run.config_json, nullptr, /*allow_exceptions=*/false), "", facts);
  return facts;
}

struct Phase {
  double StepTimeRow::*seconds;
  const char* name;
  const char* words;
};

// What the party computes, then what it does for the other one, then what it waits.
constexpr Phase kPhases[] = {
    {&StepTimeRow::data, "data", "gathering the batch's rows"},
    {&StepTimeRow::forward, "forward", "forward computation"},
    {&StepTimeRow::backward, "backward", "back-propagation"},
    {&StepTimeRow::update, "update", "the optimisers, and gradients that only they need"},
    {&StepTimeRow::protection, "protection", "perturbing, and the release gate"},
    {&StepTimeRow::attacks, "attacks", "attacks, and recording"},
    {&StepTimeRow::serialise, "serialise", "between numbers and messages"},
    {&StepTimeRow::wire, "wire", "handing messages to the network"},
    {&StepTimeRow::wait, "wait", "waiting for the other party and its messages"},
};

// The rows that were written; NaN would be a damaged one.
StepTimeRow MeanTimes(const std::vector<StepTimeRow>& rows) {
  StepTimeRow mean;
  for (const Phase& phase : kPhases) {
    for (const StepTimeRow& row : rows) {
      mean.*phase.seconds += row.*phase.seconds / static_cast<double>(rows.size());
    }
  }
  return mean;
}

double Total(const StepTimeRow& times) {
  return std::accumulate(std::begin(kPhases), std::end(kPhases), 0.0,
                         [&](double sum, const Phase& phase) { return sum + times.*phase.seconds; });
}

// "Of a step of 10.8 ms the label party computed 45%, ... and waited 40%."
std::string DescribeTimes(const std::string& role, const StepTimeRow& times) {
  const double total = Total(times);
  const auto share = [&](double seconds) { return absl::StrFormat("%.0f%%", 100 * seconds / total); };
  std::vector<std::string> parts = {
      absl::StrCat("computed ", share(times.data + times.forward + times.backward + times.update)),
      absl::StrCat("moved messages ", share(times.serialise + times.wire))};
  if (times.protection > 0) {
    parts.push_back(absl::StrCat("protected ", share(times.protection)));
  }
  parts.push_back(absl::StrCat("attacked ", share(times.attacks)));
  return absl::StrFormat("Of a step of %.3g ms the %s %s and waited %s.", 1000 * total, role,
                         absl::StrJoin(parts, ", "), share(times.wait));
}

}  // namespace

Json EventsJson(const LedgerRun& run) {
  Json events = Json::array();
  for (const PartyRecords& party : run.parties) {
    const size_t size = party.events.size();
    for (size_t i = 0; i < size; ++i) {
      // How a run began and how it ended explain most of it; a retry loop in between does not.
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
  // Times are RFC 3339 in UTC: text order is time order.
  std::stable_sort(events.begin(), events.end(), [](const Json& a, const Json& b) {
    return a["at"].get_ref<const std::string&>() < b["at"].get_ref<const std::string&>();
  });
  return events;
}

Json PartiesJson(const LedgerRun& run) {
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

Json PhasesJson() {
  Json phases = Json::array();
  for (const Phase& phase : kPhases) {
    phases.push_back({{"name", phase.name}, {"words", phase.words}});
  }
  return phases;
}

Json TimesJson(const LedgerRun& run) {
  Json parties = Json::array();
  for (const PartyRecords& party : run.parties) {
    const StepTimeRow mean = MeanTimes(party.step_times);
    if (!(Total(mean) > 0)) {
      continue;
    }
    const std::string role = absl::AsciiStrToLower(DescribeRole(party.record.run.role));
    Json phases = Json::array();
    for (const Phase& phase : kPhases) {
      phases.push_back(NumberJson(1000 * mean.*phase.seconds));
    }
    parties.push_back({{"role", role},
                       {"step", NumberJson(1000 * Total(mean))},
                       {"phases", std::move(phases)},
                       {"words", DescribeTimes(role, mean)}});
  }
  return parties;
}

namespace {

Json FigureJson(const AttributeFigure& figure) {
  const AttributeLeakRow& leak = figure.leak;
  return {{"attribute", leak.attribute},
          {"attack", leak.attack},
          {"title", AttributeAttackTitle(leak.attack)},
          {"examples", leak.examples},
          {"rows", leak.rows},
          {"accuracy",
           Json::array({NumberJson(leak.accuracy), NumberJson(leak.accuracy_low), NumberJson(leak.accuracy_high)})},
          {"floor", NumberJson(leak.floor)},
          {"advantage", NumberJson(leak.advantage())},
          {"auc", NumberJson(InvertedAuc(leak.auc))},
          // By the interval, since a chance of one in forty would call every other run a leak.
          {"above_floor", leak.accuracy_low > leak.floor},
          {"when", DescribeWhen(figure)}};
}

struct LossSteps {
  int64_t at_front = 0, corrected = 0, corrections = 0;
};
LossSteps CountSteps(const std::vector<PrivacyLossRow>& rows) {
  LossSteps steps;
  for (const PrivacyLossRow& row : rows) {
    steps.at_front += row.at_front ? 1 : 0;
    steps.corrected += row.correction_steps > 0 ? 1 : 0;
    steps.corrections += row.correction_steps;
  }
  return steps;
}

// Of one attribute over the steps: the privacy loss of what left, and the steps at the front and with corrections.
Json LossJson(const std::string& attribute, const std::vector<PrivacyLossRow>& rows) {
  constexpr size_t kMaxMarks = 200;  // More tell no more on a chart; the first of a run are as good as any.
  const auto [at_front, corrected, corrections] = CountSteps(rows);
  double largest = std::nan("");
  Json marks = Json::array();
  for (const PrivacyLossRow& row : rows) {
    largest = std::fmax(largest, row.privacy_loss);
    if (row.correction_steps > 0 && marks.size() < kMaxMarks) {
      marks.push_back(Json::array({row.step, NumberJson(row.privacy_loss)}));
    }
  }
  return {{"attribute", attribute},         {"curve", FieldCurve(rows, &PrivacyLossRow::privacy_loss)},
          {"largest", NumberJson(largest)}, {"steps", rows.size()},
          {"at_front", at_front},           {"corrected", corrected},
          {"corrections", corrections},     {"marks", std::move(marks)}};
}

// "1,040 steps: 700 along the Pareto front, 340 toward it; 12 batches were corrected before they left, by 31 steps on
// the privacy loss alone."
std::string LossWords(const AttributeRecords& records, const std::vector<PrivacyLossRow>& rows) {
  const auto [at_front, corrected, corrections] = CountSteps(rows);
  std::string words =
      absl::StrCat("Over ", rows.size(), " steps the largest privacy loss of a training batch that was sent was ",
                   absl::StrFormat("%.4g", records.largest_privacy_loss), " nats");
  if (!std::isfinite(records.threshold)) {
    return absl::StrCat(words, ". This method has no threshold.");
  }
  absl::StrAppendFormat(&words, "; the threshold is %.4g, with its slack %.4g. ", records.threshold,
                        records.threshold * (1 + records.slack));
  absl::StrAppend(&words, at_front, " steps went along the Pareto front, ",
                  static_cast<int64_t>(rows.size()) - at_front, " toward it; ", corrected,
                  corrected == 1 ? " batch was" : " batches were", " corrected before leaving, by ", corrections,
                  corrections == 1 ? " step" : " steps", " on the privacy loss alone.");
  return words;
}

}  // namespace

Json AttributesJson(const LedgerRun& run) {
  const std::optional<AttributeRecords> records = AttributeRecordsOf(run);
  if (!records.has_value() || !records->has_any()) {
    return Json();
  }
  Json figures = Json::array(), strongest = Json::array(), losses = Json::array();
  for (const AttributeFigure& figure : records->figures) {
    figures.push_back(FigureJson(figure));
  }
  for (const AttributeFigure* figure : records->strongest()) {
    strongest.push_back(FigureJson(*figure));
  }
  std::map<std::string, std::vector<PrivacyLossRow>> by_attribute;
  for (const PrivacyLossRow& row : run.nonlabel_party()->privacy_losses) {
    by_attribute[row.attribute].push_back(row);
  }
  for (const auto& [attribute, rows] : by_attribute) {
    losses.push_back(LossJson(attribute, rows));
  }
  const double limit = records->threshold * (1 + records->slack);
  return {{"protection_words", DescribeActivationProtection(records->protection)},
          {"proved_words", ProvedOfActivations(*records)},
          {"proved", records->bound.has_value()},
          {"auc_bound", records->bound.has_value() ? NumberJson(records->bound->auc_bound) : Json()},
          {"protected", records->is_protected()},
          {"strongest", std::move(strongest)},
          {"figures", std::move(figures)},
          {"threshold", NumberJson(records->threshold)},
          {"limit", NumberJson(limit)},
          {"loss_words", by_attribute.empty() ? "" : LossWords(*records, by_attribute.begin()->second)},
          {"losses", std::move(losses)}};
}

Json AttributeGlossaryJson(const std::vector<LedgerRun>& runs) {
  std::map<std::string, std::string> attacks;
  for (const LedgerRun& run : runs) {
    for (const AttributeFigure& figure : AttributeRecordsOf(run).value_or(AttributeRecords()).figures) {
      attacks[figure.leak.attack] = AttributeAttackExplanation(figure.leak.attack);
    }
  }
  Json glossary = Json::array();
  for (const auto& [attack, explanation] : attacks) {
    glossary.push_back({{"attack", attack}, {"title", AttributeAttackTitle(attack)}, {"explanation", explanation}});
  }
  return glossary;
}

}  // namespace splitveil
