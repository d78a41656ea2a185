#include "deploy/operator/audit/leak_criteria.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "deploy/operator/audit/attack_figures.h"

namespace splitveil {
namespace {

constexpr char kNotMeasured[] = "not measured";
// What a model from features alone tells of the labels is the baseline of the training's leak, no part of it.
constexpr char kBaseline[] = "features_only";

// A figure above its limit decides, then one that is missing, then the largest.
Finding AtMost(const std::string& criterion, double limit, const std::vector<AttackFigure>& figures) {
  Finding finding = {Outcome::kNotMeasured, criterion, absl::StrFormat("at most %g", limit), kNotMeasured,
                     "no such attack recorded"};
  const AttackFigure *worst = nullptr, *missing = nullptr;
  for (const AttackFigure& figure : figures) {
    if (!std::isfinite(figure.value)) {
      missing = missing == nullptr ? &figure : missing;
    } else if (worst == nullptr || figure.value > worst->value) {
      worst = &figure;
    }
  }
  if (worst != nullptr && (worst->value > limit || missing == nullptr)) {
    finding.outcome = worst->value > limit ? Outcome::kNotMet : Outcome::kMet;
    finding.found = absl::StrFormat("%.4f", worst->value);
    finding.where = DescribePlace(*worst);
  } else if (missing != nullptr) {
    finding.where = DescribePlace(*missing);
  }
  return finding;
}

// The far end of the interval, as an adversary would turn the score.
double PooledLeak(const EpochLeakRow& row) {
  return std::isfinite(row.auc_low) && std::isfinite(row.auc_high) ? std::max(row.auc_high, 1 - row.auc_low)
                                                                   : std::nan("");
}

std::vector<AttackFigure> Matching(const std::vector<AttackFigure>& figures, const v1::LeakLimit& limit) {
  std::vector<AttackFigure> matching;
  for (const AttackFigure& figure : figures) {
    if (MatchesGlob(limit.layer(), figure.layer) && MatchesGlob(limit.attack(), figure.attack) &&
        (figure.attack != kBaseline || limit.attack() == kBaseline)) {
      matching.push_back(figure);
    }
  }
  return matching;
}

std::vector<Finding> LeakLimitFindings(const PartyRecords& party, const v1::LeakLimit& limit) {
  const std::string scope = absl::StrCat(limit.attack() == "*" ? "all attacks" : limit.attack(), " at ",
                                         limit.layer() == "*" ? "all layers" : limit.layer());
  std::vector<Finding> findings;
  if (limit.has_max_mean()) {
    findings.push_back(AtMost(absl::StrCat("mean leak of ", scope), limit.max_mean(),
                              Matching(FiguresOverBatches(party, &LeakSummary::mean), limit)));
  }
  if (limit.has_max_p95()) {
    findings.push_back(AtMost(absl::StrCat("leak in 95% of the batches of ", scope), limit.max_p95(),
                              Matching(FiguresOverBatches(party, &LeakSummary::p95), limit)));
  }
  if (limit.has_max_pooled()) {
    findings.push_back(AtMost(
        absl::StrCat("leak over the last epoch of ", scope), limit.max_pooled(),
        Matching(WithAgreedAttacks(FiguresAfterLastEpoch(party, PooledLeak), party, /*batches_only=*/false), limit)));
  }
  return findings;
}

template <typename Keep>
std::vector<AttackFigure> Only(std::vector<AttackFigure> figures, Keep keep) {
  figures.erase(
      std::remove_if(figures.begin(), figures.end(), [&](const AttackFigure& figure) { return !keep(figure); }),
      figures.end());
  return figures;
}

bool IsCumulative(const AttackFigure& figure) { return Remembers(figure.attack); }
bool IsCumulativeAtCut(const AttackFigure& figure) { return IsCumulative(figure) && figure.layer == "cut"; }
bool IsMeasured(const AttackFigure& figure) { return std::isfinite(figure.value); }
bool IsNoBaseline(const AttackFigure& figure) { return figure.attack != kBaseline; }

Finding StepBound(const PartyRecords& party, double limit) {
  std::vector<double> bounds;
  for (const ProtectionRow& row : party.protections) {
    if (IsReleased(row)) {
      bounds.push_back(std::isfinite(row.auc_bound) ? row.auc_bound : 1);  // No bound is a bound of 1.
    }
  }
  Finding finding = {Outcome::kNotMeasured, "bound of Theorem 1 in 95% of the steps",
                     absl::StrFormat("at most %g", limit), kNotMeasured, "no step recorded"};
  if (!bounds.empty()) {
    const double p95 = NearestRankQuantile(bounds, 0.95);
    finding.outcome = p95 <= limit ? Outcome::kMet : Outcome::kNotMet;
    finding.found = absl::StrFormat("%.4f", p95);
    finding.where = absl::StrCat(bounds.size(), " steps");
  }
  return finding;
}

// By the label party's own events, and again by what the rows of the epochs say.
Finding NoBoundExceeded(const PartyRecords& party) {
  Finding finding = {Outcome::kNotMeasured, "no attack beyond what the noise allows", "never", kNotMeasured,
                     "no likelihood_ratio recorded"};
  int64_t exceeded = 0;
  std::string first;
  for (const EpochLeakRow& row : party.epoch_leaks) {
    if (row.attack == "likelihood_ratio" && std::isfinite(row.auc_low) && finding.outcome == Outcome::kNotMeasured) {
      finding = {Outcome::kMet, finding.criterion, finding.limit, "never", ""};
    }
    if (ExceedsBound(row)) {
      ++exceeded;
      first = !first.empty() ? first
                             : absl::StrFormat("%s: at least %.4f, the noise allows %.4f",
                                               DescribePlace({row.layer, row.attack, "", 0, row.epoch}),
                                               AucAtLeast(row), row.gaussian_auc_bound);
    }
  }
  int64_t events = 0;
  for (const EventRecord& event : party.events) {
    if (event.kind == "bound_exceeded") {
      first = events++ == 0 ? event.detail : first;
    }
  }
  if (exceeded + events > 0) {
    finding.outcome = Outcome::kNotMet;
    finding.found = absl::StrCat(std::max(exceeded, events), std::max(exceeded, events) == 1 ? " time" : " times");
    finding.where = first;
  }
  return finding;
}

Finding AuditedShare(const PartyRecords& party, double least) {
  Finding finding = {Outcome::kNotMeasured, "share of the steps audited", absl::StrFormat("at least %g", least),
                     kNotMeasured, "no attack scored batch by batch"};
  const std::vector<AttackFigure> shares = AuditedShares(party);
  for (const AttackFigure& share : shares) {
    if (!std::isfinite(share.value)) {
      return {Outcome::kNotMeasured, finding.criterion, finding.limit, kNotMeasured, DescribePlace(share)};
    }
  }
  const auto worst = std::min_element(shares.begin(), shares.end(),
                                      [](const AttackFigure& a, const AttackFigure& b) { return a.value < b.value; });
  if (worst != shares.end()) {
    finding.outcome = worst->value >= least ? Outcome::kMet : Outcome::kNotMet;
    finding.found = absl::StrFormat("%.4f", worst->value);
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

std::vector<Finding> LeakFindings(const RunRecords& run, const v1::AuditPolicy& policy) {
  const PartyRecords nothing;
  const PartyRecords& party = run.label_party() != nullptr ? *run.label_party() : nothing;
  std::vector<Finding> findings = {AuditedShare(party, policy.min_audited_share())};
  for (const v1::LeakLimit& limit : policy.max_leak()) {
    for (Finding& finding : LeakLimitFindings(party, limit)) {
      findings.push_back(std::move(finding));
    }
  }
  if (policy.has_max_measured_cumulative_auc()) {
    findings.push_back(AtMost("leak to an adversary that remembers", policy.max_measured_cumulative_auc(),
                              Only(FiguresAfterLastEpoch(party, PooledLeak), IsCumulative)));
  }
  if (policy.has_max_run_auc_bound()) {
    // The accountant's one figure stands beside the attacks that remember at the cut layer, where the noise is added.
    const auto bound = [](const EpochLeakRow& row) { return row.gaussian_auc_bound; };
    const std::vector<AttackFigure> figures = Only(FiguresAfterLastEpoch(party, bound), IsCumulativeAtCut);
    const std::vector<AttackFigure> known = Only(figures, IsMeasured);
    findings.push_back(
        AtMost("what the noise of the run allows it", policy.max_run_auc_bound(), known.empty() ? figures : known));
  }
  if (policy.has_max_step_auc_bound_p95()) {
    findings.push_back(StepBound(party, policy.max_step_auc_bound_p95()));
  }
  const auto tpr = [&](const char* words, double limit, double EpochLeakRow::*field) {
    const auto high = [field](const EpochLeakRow& row) { return row.*field; };
    findings.push_back(AtMost(words, limit, Only(FiguresAfterLastEpoch(party, high), IsNoBaseline)));
  };
  if (policy.has_max_tpr_at_1pct_fpr()) {
    tpr("positives found at 1% false alarms", policy.max_tpr_at_1pct_fpr(), &EpochLeakRow::tpr_1pct_high);
  }
  if (policy.has_max_tpr_at_01pct_fpr()) {
    tpr("positives found at 0.1% false alarms", policy.max_tpr_at_01pct_fpr(), &EpochLeakRow::tpr_01pct_high);
  }
  if (policy.require_no_bound_exceeded()) {
    findings.push_back(NoBoundExceeded(party));
  }
  return findings;
}

}  // namespace splitveil
