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
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "deploy/operator/audit/audit_report.h"
#include "deploy/operator/audit/criteria.h"
#include "deploy/operator/records/ledger_figures.h"
#include "deploy/operator/records/remedies.h"
#include "deploy/operator/report/report.h"
#include "deploy/operator/report/report_sections.h"

#include "common/figures/attack_catalogue.h"
#include "common/figures/figure_words.h"
#include "common/figures/json_number.h"

namespace splitveil {
namespace {

// Epochs trained after `batches` steps; near a whole epoch, that epoch.
double EpochsAfter(int64_t batches, const std::vector<EpochStepsRow>& of_epochs) {
  const auto after = std::lower_bound(of_epochs.begin(), of_epochs.end(), batches,
                                      [](const EpochStepsRow& row, int64_t value) { return row.first_step < value; });
  if (after == of_epochs.begin()) {
    return 0;
  }
  const EpochStepsRow& row = *(after - 1);
  const int64_t done = std::min(batches - row.first_step, row.steps);
  const double epochs = static_cast<double>(row.epoch) + static_cast<double>(done) / static_cast<double>(row.steps);
  return std::abs(epochs - std::round(epochs)) < 0.05 ? std::round(epochs) : epochs;
}

Json EvaluationsJson(const LedgerRun& run) {
  std::map<int64_t, int64_t> ordinal_of_step;
  for (const EvaluationRow& row : run.evaluations()) {
    ordinal_of_step.emplace(row.step, static_cast<int64_t>(ordinal_of_step.size()) + 1);
  }
  Json evaluations = Json::array();
  for (const EvaluationRow& row : run.evaluations()) {
    if (row.split == "own_features") {  // No epoch of the model; it stands beside the bound.
      continue;
    }
    const double epoch =
        run.epochs().empty() ? static_cast<double>(ordinal_of_step.at(row.step)) : EpochsAfter(row.step, run.epochs());
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

int64_t AuxiliaryLabels(const LedgerRun& run) {
  const Json labels = run.parties.front().Agreed("/audit/auxiliary_labels");
  return labels.is_number_integer() ? labels.get<int64_t>() : 0;
}

// One sentence each, the strongest attack on gradients first as in the headline: those without and with side
// information, the strongest that adds up the epochs; then what reads no gradient, and what the model itself adds. An
// attack stands in one of them.
Json AttackSentences(const LedgerRun& run, const std::vector<AttackLeak>& leaks, const RunFigures& figures) {
  Json sentences = Json::array();
  std::set<std::string> told;
  const auto tell = [&](const char* before, const AttackLeak& leak) {
    const std::string words = IsCumulativeAttack(leak.attack) && !leak.epochs.empty()
                                  ? DescribeCumulative(leak, figures.bound())
                                  : DescribeReach(leak);
    if (!words.empty() && told.insert(leak.attack).second) {
      sentences.push_back(absl::StrCat(before, words));
    }
  };
  const auto tell_ranked = [&](const char* before, const AttackFigure* ranked) {
    for (const AttackLeak& leak : leaks) {
      if (ranked != nullptr && leak.layer == ranked->layer && leak.attack == ranked->attack &&
          leak.observer == ranked->observer) {
        return tell(before, leak);
      }
    }
  };
  if (figures.strongest() == figures.practical()) {
    tell_ranked("Strongest, without side information: ", figures.practical());
    tell_ranked("Strongest with side information: ", figures.with_side_information());
  } else {
    tell_ranked("Strongest, with side information: ", figures.with_side_information());
    tell_ranked("Strongest without side information: ", figures.practical());
  }
  const auto is_cumulative = [](const AttackFigure* attack) {
    return attack != nullptr && IsCumulativeAttack(attack->attack);
  };
  const bool cumulative = is_cumulative(figures.practical()) || is_cumulative(figures.with_side_information());
  for (size_t i = 0; i < leaks.size() && !cumulative; ++i) {  // The strongest first.
    if (IsCumulativeAttack(leaks[i].attack) && !leaks[i].epochs.empty()) {
      tell("Strongest over all epochs: ", leaks[i]);
      break;
    }
  }
  if (figures.worst_case.has_value() && figures.worst_case->tpr_1pct().has_value()) {
    sentences.push_back(
        absl::StrFormat("Worst case, which knows all but the label and the noise: AUC %.3f; if it accuses 1%% of the "
                        "negatives, it finds "
                        "%.1f%% of the positives.",
                        figures.worst_case->auc(), 100 * *figures.worst_case->tpr_1pct()));
  }
  tell_ranked("Without any gradient: ", figures.no_gradient());
  if (const std::string advantage = DescribeAdvantage(run.epoch_leaks(), AuxiliaryLabels(run)); !advantage.empty()) {
    sentences.push_back(advantage);
  }
  return sentences;
}

// What helps: against the exceeded bound, else against what the strongest attack reaches. Empty where little leaks.
std::string RemedyForRun(const LedgerRun& run, const RunFigures& figures) {
  if (figures.bound() == BoundState::kExceeded) {
    return RemedyForExceededBound(run.protection());
  }
  const AttackFigure* const strongest = figures.strongest();
  // What a kept promise leaves, features tell: more noise does not hide that.
  if (strongest == nullptr || ExposureOf(strongest->auc()) == Exposure::kHidden ||
      figures.verdict() == PrivacyVerdict::kGuaranteed) {
    return "";
  }
  return IsCumulativeAttack(strongest->attack) ? RemedyForCumulativeLeak(run.protection())
                                               : RemedyForLeak(run.protection());
}

// What a card tells when it is opened, one sentence or more each.
Json DetailsJson(const LedgerRun& run, const std::vector<AttackLeak>& leaks, const RunFigures& figures) {
  Json details = Json::array();
  const auto add = [&](const std::string& words) {
    if (!words.empty()) {
      details.push_back(words);
    }
  };
  add(run.only_predicts()      ? "Predictions with a model that was trained before: no gradient was sent."
      : run.released_nothing() ? "The bottom model was frozen from the start: no gradient was sent."
                               : DescribeProtection(run.protection()));
  for (const Json& words : AttackSentences(run, leaks, figures)) {
    add(words);
  }
  add(DescribeBound(run.protections(), figures));
  if (figures.checked_claim() != nullptr) {
    add(absl::StrCat("Check of the claim: ", DescribeClaimCheck(*figures.checked_claim()), "."));
  }
  add(DescribeBaseline(figures));
  add(DescribeModel(run.evaluations()));
  for (const StoredVersionFigures& version : run.versions) {
    add(DescribeVersion(version));
  }
  if (const PartyRecords* const label = run.label_party(); label != nullptr) {
    const std::string answers = DescribeUnprovedAnswers(*label);
    add(answers.empty() ? answers : absl::StrCat("Outside callers: ", answers, "."));
  }
  add(DescribeTask(run.evaluations()));
  return details;
}

Json RunJson(const LedgerRun& run, const std::vector<AttackLeak>& leaks, const std::vector<ChartedLayer>& charted,
             const RunFigures& figures, const ReferenceRuns& references) {
  Json excesses = Json::array();
  for (const BoundExcess& excess : figures.excesses) {
    excesses.push_back(DescribeExcess(excess));
  }
  return {{"id", run.run_id()},
          {"label", run.label},
          {"status", run.parties.front().record.status},
          {"is_protected", !run.protection().empty() && run.protection() != "none"},
          {"answer", AnswerJson(run, figures, references)},
          {"excesses", std::move(excesses)},
          {"remedy", RemedyForRun(run, figures)},
          {"details", DetailsJson(run, leaks, figures)},
          {"features", FeaturesJson(figures)},
          {"ranking", RankingJson(figures)},
          {"leaks", LeaksJson(leaks, run, charted, figures.baseline())},
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
  return outcome == Outcome::kMet                                          ? "pass"
         : outcome == Outcome::kNotMeasurable || outcome == Outcome::kOpen ? "open"
                                                                           : "fail";
}

Json VerdictJson(const RunVerdict& verdict) {
  Json findings = Json::array();
  for (const Finding& finding : verdict.findings) {
    findings.push_back({{"outcome", OutcomeName(finding.outcome)},
                        {"criterion", finding.criterion},
                        {"limit", finding.limit},
                        {"found", finding.found},
                        {"where", finding.where},
                        {"ledger", finding.holder_words()},
                        {"not_given", finding.outcome == Outcome::kNotMeasurable}});
  }
  Json remedies = Json::array();
  for (const Remedy& remedy : Remedies(verdict)) {
    remedies.push_back({{"words", remedy.words}, {"criteria", remedy.criteria}});
  }
  return {{"outcome", verdict.met()      ? "pass"
                      : verdict.failed() ? "fail"
                                         : "open"},
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
Json DataJson(const LedgerRun& run) {
  const PartyRecords& party = run.parties.front();
  Json facts = {{"Run", run.run_id()}, {"Started", party.record.started_at}};
  for (const EventRow& event : party.events) {
    if (event.kind == "aligned") {
      facts["Aligned"] = AlignedIds(event.detail);
    }
  }
  facts["Agreement SHA-256"] = party.record.run.agreement_sha256;
  return facts;
}

Json AuditJson(const std::vector<LedgerRun>& runs, const AuditReport& audit) {
  Json ledgers = Json::array(), data = Json::array();
  for (const AuditedFile& ledger : audit.subject.ledgers) {
    Json recorded = Json::array();
    for (const LedgerRun& run : runs) {
      for (const PartyRecords& party : run.parties) {
        if (party.ledger_name == ledger.name) {
          recorded.push_back(absl::StrCat(DescribeRole(party.record.run.role), ", run ", run.run_id()));
        }
      }
    }
    ledgers.push_back({{"name", ledger.name}, {"sha256", ledger.sha256}, {"holds", std::move(recorded)}});
  }
  for (const LedgerRun& run : runs) {
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

Json ReportJson(const std::vector<LedgerRun>& runs, const AuditReport* audit) {
  std::vector<std::vector<AttackLeak>> all_leaks;
  const std::vector<RunFigures> all_figures = FiguresOfAll(runs);
  for (const LedgerRun& run : runs) {
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
  const ReferenceRuns references = FindReferences(runs);
  Json all = Json::array();
  for (size_t i = 0; i < full.size(); ++i) {
    all.push_back(RunJson(runs[full[i]], leaks[i], charted, all_figures[full[i]], references));
    if (audit != nullptr && i < audit->verdicts.size()) {
      all.back()["policy"] = VerdictJson(audit->verdicts[i]);
    }
  }
  return {{"answer", AnswerSentence(runs, all_figures)},
          {"thresholds", {{"partly", kPartlyFrom}, {"largely", kLargelyFrom}, {"exposed", kExposedFrom}}},
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
