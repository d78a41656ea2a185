#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "deploy/operator/audit/criteria.h"
#include "deploy/operator/records/ledger_figures.h"
#include "deploy/operator/records/remedies.h"

#include "common/figures/attack_catalogue.h"
#include "common/figures/figure_words.h"
#include "common/figures/run_figures.h"
#include "common/leakage/summary.h"

namespace splitveil {
namespace {

constexpr size_t kExcessesShown = 3;
constexpr size_t kIdShown = 8;

// On what the run's bound rests; empty where these ledgers do not name the protection.
const char* KindOf(const LedgerRun& run) {
  return run.protection().empty() ? "" : IsBoundProved(run.protection()) ? " (proved)" : " (conditional)";
}

// The accountant's one figure stands beside the cumulative attacks at the cut layer, where the noise is added.
Finding RunBound(const LedgerRun& run, const PartyRecords& party, double limit) {
  Finding finding = NotMeasured(absl::StrCat("bound per run", KindOf(run)), absl::StrFormat("at most %g", limit),
                                kNotMeasured, RemedyForCumulativeLeak(run.protection()));
  double bound = std::nan("");
  for (const LimitedFigure& figure :
       FiguresAfterLastEpoch(party, [](const EpochLeakRow& row) { return row.gaussian_auc_bound; })) {
    if (IsCumulativeAttack(figure.attack) && figure.layer == "cut" && std::isfinite(figure.value)) {
      bound = std::isnan(bound) ? figure.value : std::max(bound, figure.value);
    }
  }
  if (std::isnan(bound)) {
    return finding;
  }
  if (party.all_runs.has_value()) {
    // The account adds up all runs on these labels, and a partner keeps what it received from each.
    bound = std::max(bound, party.all_runs->auc_bound);
  }
  finding.outcome = bound <= limit ? Outcome::kMet : Outcome::kNotMet;
  finding.found = AgainstLimit(bound, limit);
  finding.where = !party.all_runs.has_value()
                      ? "all releases at the cut layer"
                      : absl::StrCat("all releases of all runs up to this one, by privacy account ",
                                     party.all_runs->account.substr(0, kIdShown));
  // The run's own bound leaves out the releases of the runs that it continues: it may pass while their sum fails.
  if (!party.all_runs.has_value() && finding.outcome == Outcome::kMet && !party.record.run.resumed_from.empty()) {
    finding.outcome = Outcome::kNotMeasured;
    finding.found = absl::StrCat(finding.found, " by itself; not with the runs that it resumes from");
    finding.where.clear();
    finding.remedy = "Judge by all_runs_auc_bound beside the ledger, which counts them.";
  }
  return finding;
}

Finding StepBound(const LedgerRun& run, const PartyRecords& party, double limit) {
  std::vector<double> bounds;
  for (const ProtectionRow& row : party.protections) {
    if (IsReleased(row)) {
      bounds.push_back(std::isfinite(row.auc_bound) ? row.auc_bound : 1);  // No bound is a bound of 1.
    }
  }
  Finding finding = NotMeasured("bound of Theorem 1 per step, p95", absl::StrFormat("at most %g", limit),
                                "not measured: no step recorded", RemedyForLeak(run.protection()));
  if (!bounds.empty()) {
    const double p95 = NearestRankQuantile(bounds, 0.95);
    finding.outcome = p95 <= limit ? Outcome::kMet : Outcome::kNotMet;
    finding.found = AgainstLimit(p95, limit);
    finding.where = absl::StrCat("over ", bounds.size(), " steps");
  }
  return finding;
}

// "Gradient length (norm): lower 99.99% limit of its AUC 0.660, bound 0.650".
std::string DescribeExcess(const BoundExcess& excess) {
  const std::string by = AttackNamed(excess.attack);
  if (excess.epochs.empty()) {
    return absl::StrCat(by, ": see the run's events");
  }
  return absl::StrFormat("%s: lower 99.99%% limit of its AUC %.3f, bound %.3f", by, *excess.auc_at_least,
                         *excess.auc_bound);
}

// The widest first, with its figures; the next by their names.
std::string DescribeExcesses(const std::vector<BoundExcess>& excesses) {
  std::vector<std::string> names;
  for (size_t i = 1; i < std::min(kExcessesShown, excesses.size()); ++i) {
    names.push_back(AttackNamed(excesses[i].attack));
  }
  if (const size_t more = excesses.size() - 1 - names.size(); more > 0) {
    names.push_back(absl::StrCat(more, more == 1 ? " other" : " others"));
  }
  return absl::StrCat("exceeded by ", DescribeExcess(excesses.front()),
                      names.empty() ? "" : absl::StrCat("; and by ", absl::StrJoin(names, ", ")));
}

// "the cut layer, epoch 3".
std::string PlaceOf(const BoundExcess& excess) {
  return absl::StrCat(DescribeLayer(excess.layer),
                      excess.worst_epoch > 0 ? absl::StrCat(", epoch ", excess.worst_epoch) : "");
}

Finding NoBoundExceeded(const LedgerRun& run, const PartyRecords& party, const RunFigures& figures) {
  Finding finding = NotMeasured(absl::StrCat("bound not exceeded by an attack", KindOf(run)), "not exceeded",
                                "not measured: no cumulative_conditional_likelihood_ratio recorded",
                                RemedyForExceededBound(run.protection()));
  if (figures.bound() == BoundState::kExceeded) {
    finding.outcome = Outcome::kNotMet;
    finding.found = DescribeExcesses(figures.excesses);
    finding.where = PlaceOf(figures.excesses.front());
  } else if (figures.bound() == BoundState::kNoneStated) {
    finding.outcome = Outcome::kNotMet;
    finding.found = "no bound: the protection states none";
    finding.remedy =
        "Choose a protection that states one, or judge by measurements alone (require_no_bound_exceeded: false).";
    // It tells something only if this party itself scored the attack that adds up all epochs.
  } else if (figures.bound() == BoundState::kNotExceeded &&
             std::any_of(party.epoch_leaks.begin(), party.epoch_leaks.end(), [&](const EpochLeakRow& row) {
               return IsWorstCase(row.attack) && IsCumulativeAttack(row.attack) && IsHeldAgainstBound(row);
             })) {
    finding.outcome = Outcome::kMet;
    finding.found = absl::StrCat(figures.is_proved() ? "proved; " : "", BoundStateWords(figures));
  }
  return finding;
}

Finding BoundProved(const LedgerRun& run, const RunFigures& figures) {
  Finding finding = {Outcome::kNotMet,           "bound proved for any adversary", "proved", kNotMeasured, "",
                     RemedyForConditionalBound()};
  if (figures.bound() == BoundState::kNotInLedger) {
    finding.outcome = Outcome::kNotMeasured;
  } else if (figures.bound() == BoundState::kNoneStated) {
    finding.found = "no bound: the protection states none";
  } else if (!figures.is_proved()) {
    finding.found = absl::StrCat("not proved: that of ", run.protection(), " is conditional");
  } else {
    finding.outcome = Outcome::kMet;
    finding.found = absl::StrCat(figures.verdict() == PrivacyVerdict::kUnchecked ? "proved, not checked: " : "proved: ",
                                 ProvedWords(figures));
  }
  return finding;
}

Finding ClaimNotRefuted(const LedgerRun& run, const ClaimCheckRow& audit) {
  return {audit.is_refuted() ? Outcome::kNotMet : Outcome::kMet,
          "claimed mu not refuted by the run's own scores",
          absl::StrFormat("at most %.3f", audit.claimed_mu),
          absl::StrFormat("%smu is at least %.3f (%.4g%%; %.3f at %.0f%%) by %d examples%s",
                          audit.is_refuted() ? "BROKEN: " : "", audit.failing_mu_lower, 100 * audit.failing_confidence,
                          audit.mu_lower, 100 * audit.confidence, audit.examples,
                          audit.is_conclusive() ? "" : ", too few to detect noise at half the claimed strength"),
          "all releases at the cut layer",
          RemedyForExceededBound(run.protection())};
}

}  // namespace

std::vector<Finding> BoundFindings(const LedgerRun& run, const v1::AuditPolicy& policy) {
  const PartyRecords nothing;
  const PartyRecords* const recorded = run.label_party();
  const PartyRecords& party = recorded != nullptr ? *recorded : nothing;
  const RunFigures figures = FiguresOf(run);
  std::vector<Finding> findings;
  if (policy.has_max_run_auc_bound()) {
    findings.push_back(RunBound(run, party, policy.max_run_auc_bound()));
  }
  if (policy.has_max_step_auc_bound_p95()) {
    findings.push_back(StepBound(run, party, policy.max_step_auc_bound_p95()));
  }
  if (policy.require_proved_bound()) {
    findings.push_back(BoundProved(run, figures));
  }
  if (policy.require_no_bound_exceeded()) {
    findings.push_back(NoBoundExceeded(run, party, figures));
  }
  // Nothing was released, so that every bound is kept, even one that was not recorded.
  if (party.released_nothing()) {
    for (Finding& finding : findings) {
      finding.outcome = Outcome::kMet;
      finding.found = kNothingLeft;
      finding.where.clear();
    }
  }
  if (const ClaimCheckRow* const claim = figures.checked_claim(); claim != nullptr) {
    findings.push_back(ClaimNotRefuted(run, *claim));
  }
  return findings;
}

}  // namespace splitveil
