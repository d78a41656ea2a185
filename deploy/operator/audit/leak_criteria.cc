#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "deploy/operator/audit/criteria.h"
#include "deploy/operator/records/ledger_figures.h"
#include "deploy/operator/records/remedies.h"

#include "common/figures/attack_catalogue.h"
#include "common/figures/figure_words.h"
#include "common/figures/run_figures.h"
#include "common/leakage/attack_traits.h"
#include "common/leakage/summary.h"

namespace splitveil {
namespace {

// What a model from features alone tells of the labels is the baseline of the training's leak, no part of it.
constexpr char kBaseline[] = "features_only";

// "Gradient length (norm) at the cut layer, scored by the label party, after epoch 5".
std::string DescribePlace(const LimitedFigure& figure) {
  std::string place = absl::StrCat(AttackNamed(figure.attack), " at ", DescribeLayer(figure.layer));
  if (figure.observer == "label_party") {
    absl::StrAppend(&place, ", scored by the label party");
  } else if (figure.observer == "nonlabel_party") {
    absl::StrAppend(&place, ", scored by the attack module");
  } else if (!figure.observer.empty()) {
    absl::StrAppend(&place, ", scored by ", figure.observer);
  }
  if (figure.epoch >= 0) {
    absl::StrAppend(&place, ", after epoch ", figure.epoch + 1);
  }
  return place;
}

AttackTraits TraitsOfName(const std::string& attack) {
  return TraitsOf(AttackOfName(attack).value_or(v1::ATTACK_UNSPECIFIED).attack);
}

bool HasBatches(const std::string& attack) {
  const AttackTraits traits = TraitsOfName(attack);
  return traits.occasion == AttackOccasion::kEachBatch;
}

// The attacks at the layers that the run's agreement names, and model completion where labels are given for it, without
// a figure.
// A limit on an attack that did not run is not kept by that: what was agreed and is missing comes in as NaN.
std::vector<LimitedFigure> AgreedAttacks(const PartyRecords& party) {
  std::vector<int> hint_counts;
  for (const Json& hint_count : party.Agreed("/audit/hint_counts")) {
    if (hint_count.is_number_integer()) {
      hint_counts.push_back(hint_count.get<int>());
    }
  }
  std::vector<LimitedFigure> agreed;
  for (const std::string& layer : party.AgreedTexts("/audit/layers")) {
    for (const std::string& attack : party.AgreedTexts("/audit/attacks")) {
      const std::string name = absl::AsciiStrToLower(attack);
      const std::optional<AttackVariant> known = AttackOfName(name);
      if (!known.has_value()) {  // Named by a newer build: it was agreed, and no figure of it is known.
        agreed.push_back({layer, name, "", std::nan("")});
        continue;
      }
      // An attack that needs the cut gradient itself cannot run at another layer: it is not missing there.
      if (!TraitsOf(known->attack).cut_only() || layer == "cut") {
        // A name that says its own number of hints stands for that one alone.
        const std::vector<int> counts =
            known->hint_count > 0 ? std::vector<int>{known->hint_count} : HintCounts(hint_counts);
        for (const AttackVariant& variant : VariantsOf(known->attack, counts)) {
          agreed.push_back({layer, AttackName(variant), "", std::nan("")});
        }
      }
    }
  }
  // Labels were given for it: a peer that takes them and submits no scores is not to pass.
  if (const Json labels = party.Agreed("/audit/auxiliary_labels"); labels.is_number() && labels > 0) {
    agreed.push_back({"cut", AttackName(v1::MODEL_COMPLETION), "", std::nan("")});
  }
  return agreed;
}

// `figures`, and with NaN what the run's agreement names and is not among them. `batches_only`: but for attacks that
// accumulate over the epochs or run once.
std::vector<LimitedFigure> WithAgreedAttacks(std::vector<LimitedFigure> figures, const PartyRecords& party,
                                             bool batches_only) {
  for (LimitedFigure& agreed : AgreedAttacks(party)) {
    const bool known = std::any_of(figures.begin(), figures.end(), [&](const LimitedFigure& figure) {
      return figure.layer == agreed.layer && figure.attack == agreed.attack;
    });
    if (!known && (!batches_only || HasBatches(agreed.attack))) {
      figures.push_back(std::move(agreed));
    }
  }
  return figures;
}

// The summary's `field` over the batches. Agreed attacks that score batches and were not
// recorded come with NaN.
std::vector<LimitedFigure> FiguresOverBatches(const PartyRecords& party, double LeakSummary::*field) {
  std::vector<LimitedFigure> figures;
  for (const LeakSeries& series : party.leaks) {
    const double auc = series.summary.steps > 0 ? series.summary.*field : std::nan("");
    figures.push_back({series.layer, series.attack, series.observer, auc});
    if (field == &LeakSummary::p95) {  // The only one that a summary of removed steps does not hold.
      figures.back().at_least = series.p95_at_least;
    }
  }
  return WithAgreedAttacks(std::move(figures), party, /*batches_only=*/true);
}

// Share of the released steps that have an AUC; agreed attacks as above.
std::vector<LimitedFigure> AuditedShares(const PartyRecords& party) {
  const auto released = static_cast<double>(party.released_steps());
  std::vector<LimitedFigure> shares;
  for (const LeakSeries& series : party.leaks) {
    const double share = released > 0 ? static_cast<double>(series.summary.steps) / released : std::nan("");
    shares.push_back({series.layer, series.attack, series.observer, share});
  }
  return WithAgreedAttacks(std::move(shares), party, /*batches_only=*/true);
}

// "0.620", "0.610, upper 95% limit 0.620".
std::string DescribeFound(const LimitedFigure& figure, double limit) {
  const std::string found = AgainstLimit(figure.value, limit);
  return std::isfinite(figure.measured) ? absl::StrFormat("%.3f, upper 95%% limit %s", figure.measured, found) : found;
}

// A figure above its limit decides, then one that is missing, then the largest. Of a run that released no gradient,
// attacks on gradients are not missing.
Finding AtMost(const PartyRecords& party, const std::string& criterion, double limit,
               const std::vector<LimitedFigure>& figures, const std::string& remedy) {
  Finding finding =
      NotMeasured(criterion, absl::StrFormat("at most %g", limit), "not measured: no such attack recorded", remedy);
  const LimitedFigure *worst = nullptr, *missing = nullptr;
  for (const LimitedFigure& figure : figures) {
    if (!std::isfinite(figure.value)) {
      // Without a released gradient there was nothing for an attack on gradients to read.
      missing = missing == nullptr && !(party.released_nothing() && ReadsGradients(figure.attack)) ? &figure : missing;
    } else if (worst == nullptr || figure.value > worst->value) {
      worst = &figure;
    }
  }
  // Of removed steps only a lower limit is known: above the limit it fails for certain, below it nothing is known.
  const bool exceeded = std::any_of(figures.begin(), figures.end(), [limit](const LimitedFigure& figure) {
    return (std::isfinite(figure.at_least) ? figure.at_least : figure.value) > limit;
  });
  if (worst != nullptr && (exceeded || missing == nullptr)) {
    finding.outcome = exceeded ? Outcome::kNotMet : worst->value > limit ? Outcome::kOpen : Outcome::kMet;
    finding.found = DescribeFound(*worst, limit);
    finding.where = DescribePlace(*worst);
    if (finding.outcome == Outcome::kOpen) {
      finding.found = absl::StrCat("not known: ", party.missing_steps());
      finding.remedy = kKeepStepsRemedy;
    }
  } else if (missing != nullptr) {
    finding.found = kNotMeasured;
    finding.where = DescribePlace(*missing);
  } else if (party.released_nothing()) {
    finding.outcome = Outcome::kMet;
    finding.found = kNothingLeft;
  }
  return finding;
}

double PooledAuc(const EpochLeakRow& row) { return InvertedAuc(row.auc); }

// The far end of the interval, as an adversary would invert the score.
double PooledLeak(const EpochLeakRow& row) {
  // The end of the interval that favours the adversary, on whichever side of 0.5 it lies.
  return std::isfinite(row.auc_low) && std::isfinite(row.auc_high) ? std::max(row.auc_high, 1 - row.auc_low)
                                                                   : std::nan("");
}

std::vector<LimitedFigure> Matching(const std::vector<LimitedFigure>& figures, const v1::MeasuredLeakLimit& limit) {
  std::vector<LimitedFigure> matching;
  for (const LimitedFigure& figure : figures) {
    // A pattern such as * limits attacks on the training; the baseline is limited only by its name.
    if (MatchesGlob(limit.layer(), figure.layer) && MatchesGlob(limit.attack(), figure.attack) &&
        (figure.attack != kBaseline || limit.attack() == kBaseline)) {
      matching.push_back(figure);
    }
  }
  return matching;
}

bool IsPattern(const std::string& text) { return text.find_first_of("*?") != std::string::npos; }

// "Gradient length (norm)", with the layer where it is limited; a pattern stands as it is.
std::string DescribeScope(const v1::MeasuredLeakLimit& limit) {
  std::string attacks = limit.attack() == "*"       ? "all attacks"
                        : IsPattern(limit.attack()) ? absl::StrCat("attacks \"", limit.attack(), "\"")
                                                    : AttackNamed(limit.attack());
  if (limit.layer() == "*") {
    return attacks;
  }
  return absl::StrCat(attacks, IsPattern(limit.layer()) ? absl::StrCat(" at layers \"", limit.layer(), "\"")
                                                        : absl::StrCat(" at ", DescribeLayer(limit.layer())));
}

std::vector<Finding> MeasuredLeakFindings(const LedgerRun& run, const PartyRecords& party,
                                          const v1::MeasuredLeakLimit& limit) {
  const std::string scope = DescribeScope(limit);
  const std::string remedy = FiguresOf(run).bound() == BoundState::kExceeded ? RemedyForExceededBound(run.protection())
                                                                             : RemedyForLeak(run.protection());
  std::vector<Finding> findings;
  if (limit.has_max_mean()) {
    findings.push_back(AtMost(party, absl::StrCat("mean AUC: ", scope), limit.max_mean(),
                              Matching(FiguresOverBatches(party, &LeakSummary::mean), limit), remedy));
  }
  if (limit.has_max_p95()) {
    findings.push_back(AtMost(party, absl::StrCat("p95 AUC: ", scope), limit.max_p95(),
                              Matching(FiguresOverBatches(party, &LeakSummary::p95), limit), remedy));
  }
  if (limit.has_max_pooled()) {
    findings.push_back(AtMost(
        party, absl::StrCat("last epoch's AUC: ", scope), limit.max_pooled(),
        Matching(WithAgreedAttacks(FiguresAfterLastEpoch(party, PooledLeak, PooledAuc), party, /*batches_only=*/false),
                 limit),
        remedy));
  }
  // The criterion names the attack already.
  const std::string name = absl::StrCat(AttackNamed(limit.attack()), " at ");
  for (Finding& finding : findings) {
    // "norm at the cut layer" after "p95 AUC: norm" would name it twice.
    finding.where = std::string(absl::StripPrefix(finding.where, name));
  }
  return findings;
}

template <typename Keep>
std::vector<LimitedFigure> Only(std::vector<LimitedFigure> figures, Keep keep) {
  figures.erase(
      std::remove_if(figures.begin(), figures.end(), [&](const LimitedFigure& figure) { return !keep(figure); }),
      figures.end());
  return figures;
}

bool IsCumulative(const LimitedFigure& figure) { return IsCumulativeAttack(figure.attack); }
bool IsNoBaseline(const LimitedFigure& figure) { return figure.attack != kBaseline; }

Finding AuditedShare(const PartyRecords& party, double least) {
  Finding finding =
      NotMeasured("share of the steps audited", absl::StrFormat("at least %g", least),
                  "not measured: no attack scored batch by batch",
                  "Audit more steps (audit.every_batches), or set min_audited_share to 1 / every_batches.");
  if (party.released_nothing()) {
    finding.outcome = Outcome::kMet;
    finding.found = kNothingLeft;
    return finding;
  }
  const std::vector<LimitedFigure> shares = AuditedShares(party);
  for (const LimitedFigure& share : shares) {
    // An agreed attack that never scored must not pass because others scored often.
    if (!std::isfinite(share.value)) {
      return {Outcome::kNotMeasured, finding.criterion, finding.limit, kNotMeasured, DescribePlace(share)};
    }
  }
  const auto worst = std::min_element(shares.begin(), shares.end(),
                                      [](const LimitedFigure& a, const LimitedFigure& b) { return a.value < b.value; });
  if (worst != shares.end()) {
    finding.outcome = worst->value >= least ? Outcome::kMet : Outcome::kNotMet;
    finding.found = AgainstLimit(worst->value, least);
    finding.where = DescribePlace(*worst);
  }
  return finding;
}

}  // namespace

bool MatchesGlob(absl::string_view pattern, absl::string_view text) {
  // After a mismatch the last * takes one character more.
  size_t p = 0, t = 0, star = absl::string_view::npos, taken = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != absl::string_view::npos) {
      p = star + 1;
      t = ++taken;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == absl::string_view::npos;
}

std::vector<Finding> LeakFindings(const LedgerRun& run, const v1::AuditPolicy& policy) {
  const PartyRecords nothing;
  const PartyRecords* const recorded = run.label_party();
  const PartyRecords& party = recorded != nullptr ? *recorded : nothing;
  // First how much was looked at: without it, all other figures could be of a single batch.
  std::vector<Finding> findings = {AuditedShare(party, policy.min_audited_share())};
  for (const v1::MeasuredLeakLimit& limit : policy.max_measured_leak()) {
    for (Finding& finding : MeasuredLeakFindings(run, party, limit)) {
      findings.push_back(std::move(finding));
    }
  }
  if (policy.has_max_measured_cumulative_auc()) {
    findings.push_back(AtMost(party, "AUC of the cumulative attacks", policy.max_measured_cumulative_auc(),
                              Only(FiguresAfterLastEpoch(party, PooledLeak, PooledAuc), IsCumulative),
                              RemedyForCumulativeLeak(run.protection())));
  }
  const auto tpr = [&](const char* words, double limit, double EpochLeakRow::*high, double EpochLeakRow::*measured) {
    const auto of = [](double EpochLeakRow::*any) { return [any](const EpochLeakRow& row) { return row.*any; }; };
    findings.push_back(AtMost(party, words, limit,
                              Only(FiguresAfterLastEpoch(party, of(high), of(measured)), IsNoBaseline),
                              RemedyForLeak(run.protection())));
  };
  if (policy.has_max_measured_tpr_at_1pct_fpr()) {
    tpr("true positive rate at 1% false positives", policy.max_measured_tpr_at_1pct_fpr(), &EpochLeakRow::tpr_1pct_high,
        &EpochLeakRow::tpr_1pct);
  }
  if (policy.has_max_measured_tpr_at_01pct_fpr()) {
    tpr("true positive rate at 0.1% false positives", policy.max_measured_tpr_at_01pct_fpr(),
        &EpochLeakRow::tpr_01pct_high, &EpochLeakRow::tpr_01pct);
  }
  if (policy.has_max_worst_case_tpr_at_1pct_fpr()) {
    // The one that FiguresOf ranks: the cumulative attack's interval counts if it ran, not that of a single release.
    const std::optional<AttackFigure> worst_case = WorstCaseOf(party.epoch_leaks);
    const auto is_worst_case = [&](const LimitedFigure& figure) {
      return worst_case.has_value() && figure.attack == worst_case->attack && figure.layer == "cut" &&
             figure.observer == worst_case->observer;
    };
    findings.push_back(AtMost(party, "worst case's true positive rate at 1% false positives",
                              policy.max_worst_case_tpr_at_1pct_fpr(),
                              Only(FiguresAfterLastEpoch(
                                       party, [](const EpochLeakRow& row) { return row.tpr_1pct_high; },
                                       [](const EpochLeakRow& row) { return row.tpr_1pct; }),
                                   is_worst_case),
                              RemedyForCumulativeLeak(run.protection())));
  }
  return findings;
}

std::string BoundAgainstLimit(double bound, double limit) {
  return std::abs(bound - limit) < 0.0005 ? AgainstLimit(bound, limit) : BoundText(bound);
}

std::string AgainstLimit(double value, double limit) {
  return std::abs(value - limit) < 0.0005 && value != limit ? absl::StrFormat("%.6f", value)
                                                            : absl::StrFormat("%.3f", value);
}

std::vector<LimitedFigure> FiguresAfterLastEpoch(const PartyRecords& party, const EpochFigure& value,
                                                 const EpochFigure& measured) {
  std::vector<LimitedFigure> figures;
  const int64_t last_epoch = party.last_released_epoch();
  const auto key = [](const LimitedFigure& figure) { return std::tie(figure.layer, figure.attack, figure.observer); };
  for (const EpochLeakRow& row : party.epoch_leaks) {  // By layer, attack, observer and epoch.
    // An attack that missed the last epochs says nothing about the gradients released in them.
    const bool is_last = row.epoch >= last_epoch || TraitsOfName(row.attack).once_per_run();
    LimitedFigure figure = {row.layer, row.attack, row.observer, is_last ? value(row) : std::nan(""), row.epoch};
    if (measured) {
      figure.measured = measured(row);
    }
    // A later epoch of the same attack and observer replaces the earlier one.
    if (!figures.empty() && key(figures.back()) == key(figure)) {
      figures.pop_back();
    }
    figures.push_back(std::move(figure));
  }
  return figures;
}

}  // namespace splitveil
