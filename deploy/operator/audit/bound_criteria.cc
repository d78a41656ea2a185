#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
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
constexpr double kRounding = 1e-12;
constexpr char kAllRunsRemedy[] =
    "Runs on the same labels add up, whichever account counted them: keep one privacy account for all of them, and set "
    "the same epsilon or sigma in each, since noise that the account has counted costs nothing again.";
constexpr char kDoubtRemedy[] =
    "Keep runs on unrelated labels in ledgers of their own, and count all runs on the same labels in one privacy "
    "account.";

constexpr char kUnprovedRemedy[] =
    "Serve outside callers from a model that has learned from noised labels (gaussian_label_dp with "
    "release_head_predicts), without unproved_answers: what was answered cannot be taken back.";

constexpr char kUnderAssumptions[] = ", only under its assumptions";

// The run bound that the accountant states beside the cumulative attacks at the cut layer, where the noise is added.
// NaN if it is missing.
double OwnBound(const PartyRecords& party) {
  double bound = std::nan("");
  for (const LimitedFigure& figure :
       FiguresAfterLastEpoch(party, [](const EpochLeakRow& row) { return row.gaussian_auc_bound; })) {
    if (IsCumulativeAttack(figure.attack) && figure.layer == "cut" && std::isfinite(figure.value)) {
      bound = std::isnan(bound) ? figure.value : std::max(bound, figure.value);
    }
  }
  return bound;
}

// On what the bound rests, the other runs' parts in it included; empty where these ledgers do not name the protection.
const char* KindOf(const LedgerRun& run, const AllRunsBound& all_runs = {}) {
  return run.protection().empty()                                         ? ""
         : IsBoundProved(run.protection()) && all_runs.not_proved.empty() ? " (proved)"
                                                                          : " (conditional)";
}

// What `all_runs` comes to under a policy that asks for a proof: assumptions bound nothing.
AllRunsBound OnlyProved(AllRunsBound all_runs) {
  if (!all_runs.not_proved.empty() && all_runs.possible < 1) {
    all_runs.possible = 1;
    all_runs.doubt = absl::StrCat("nothing proved bounds what ", all_runs.not_proved,
                                  " released of these labels: a partner that chooses its activations may read more");
  }
  return all_runs;
}

std::string DescribeRuns(const PartyRecords& party, const AllRunsBound& all_runs) {
  std::vector<std::string> accounts;
  for (const std::string& account : all_runs.accounts) {
    accounts.push_back(account.substr(0, kIdShown));
  }
  std::string text = all_runs.runs > 1
                         ? absl::StrCat("all releases of ", all_runs.runs, " runs on these labels up to this one")
                     : party.all_runs.has_value() ? "all releases of all runs up to this one"
                                                  : "all releases at the cut layer";
  if (accounts.empty() && party.all_runs.has_value()) {
    accounts.push_back(party.all_runs->account.substr(0, kIdShown));
  }
  if (!accounts.empty()) {
    absl::StrAppend(&text, ", by privacy account", accounts.size() > 1 ? "s " : " ", absl::StrJoin(accounts, ", "));
  }
  for (const EventRow& event : party.events) {
    if (event.kind == "new_account" || event.kind == kLostByAccount) {
      absl::StrAppend(&text, event.kind == kLostByAccount ? "; an older copy of it" : "; a new account",
                      ", by the operator's new_account");
      break;
    }
  }
  return text;
}

// Held to what is certain: more than the limit fails, and what may be more is open.
void HoldToLimit(double known, double possible, double limit, const AllRunsBound& all_runs, Finding& finding) {
  // Sums of a run's figures and of its account's differ by rounding.
  const double most = limit + kRounding;
  finding.outcome = known > most ? Outcome::kNotMet : possible > most ? Outcome::kOpen : Outcome::kMet;
  finding.found = BoundAgainstLimit(known, limit);
  if (finding.outcome == Outcome::kOpen) {
    absl::StrAppend(&finding.found,
                    possible < 1 ? absl::StrCat(" or up to ", BoundAgainstLimit(possible, limit)) : " or more", ": ",
                    all_runs.doubt);
    finding.remedy = kDoubtRemedy;
  }
}

Finding RunBound(const LedgerRun& run, const PartyRecords& party, const AllRunsBound& all_runs, double limit) {
  Finding finding =
      NotMeasured(absl::StrCat("bound per run", KindOf(run, all_runs)), absl::StrFormat("at most %g", limit),
                  kNotMeasured, RemedyForCumulativeLeak(run.protection()));
  // A run that was killed has no figure of its own: what it planned bounds it.
  double own = OwnBound(party);
  own = std::isnan(own) ? PlannedAucBound(party).value_or(own) : own;
  // The account adds up all runs on these labels, and a partner keeps what it received from each.
  const double bound = party.all_runs.has_value() ? std::fmax(own, party.all_runs->auc_bound) : own;
  if (std::isnan(bound)) {
    return finding;
  }
  const double known = std::max(bound, all_runs.known);
  // Only the sum is too large: more noise in this run would not bring it down.
  if (own <= limit && known > limit) {
    finding.remedy = kAllRunsRemedy;
  }
  HoldToLimit(known, std::max(known, all_runs.possible), limit, all_runs, finding);
  if (finding.outcome == Outcome::kOpen && !IsBoundProved(run.protection())) {
    finding.remedy = RemedyForConditionalBound();
  }
  finding.where = DescribeRuns(party, all_runs);
  if (finding.outcome == Outcome::kMet && !all_runs.not_proved.empty()) {
    finding.found += kUnderAssumptions;
  }
  // The run's own bound leaves out the releases of the runs that it continues: it may pass while their sum fails.
  if (!party.all_runs.has_value() && !all_runs.has_earlier && finding.outcome != Outcome::kNotMet &&
      !party.record.run.resumed_from.empty()) {
    finding.outcome = Outcome::kNotMeasured;
    finding.found = absl::StrCat(BoundAgainstLimit(known, limit), " by itself; not with the runs that it resumes from");
    finding.where.clear();
    finding.remedy = "Judge it together with the ledger of the runs that it resumes from.";
  }
  return finding;
}

// Whatever the policy says: the label party's own limit, where one of these runs had it.
Finding LifetimeBound(const PartyRecords& party, const AllRunsBound& all_runs) {
  Finding finding = NotMeasured("bound of all runs on these labels", absl::StrFormat("at most %g", all_runs.limit),
                                kNotMeasured, kAllRunsRemedy);
  HoldToLimit(all_runs.known, all_runs.possible, all_runs.limit, all_runs, finding);
  finding.where = absl::StrCat(DescribeRuns(party, all_runs), "; limit: max_lifetime_auc_bound");
  return finding;
}

Finding StepBound(const LedgerRun& run, const PartyRecords& party, double limit, bool require_proof) {
  const auto of = [](double bound) { return std::isfinite(bound) ? bound : 1; };  // No bound is a bound of 1.
  // Two estimates of removed steps, one too high and one too low: where both agree with the limit, the answer is
  // certain.
  std::vector<RepeatedValue> bounds, at_least;
  for (const StepSummaryRow& row : party.removed_steps) {
    if (IsReleased(row)) {
      bounds.push_back({of(row.worst_auc_bound), row.steps});
      at_least.push_back({row.least_auc_bound, row.steps});
    }
  }
  for (const ProtectionRow& row : party.protections) {
    if (IsReleased(row)) {
      bounds.push_back({of(row.auc_bound)});
      at_least.push_back({of(row.auc_bound)});
    }
  }
  Finding finding = NotMeasured("bound of Theorem 1 per step, p95", absl::StrFormat("at most %g", limit),
                                "not measured: no step recorded", RemedyForLeak(run.protection()));
  if (!bounds.empty()) {
    finding.where = absl::StrCat("over ", party.released_steps(), " steps");
    const double p95 = NearestRankQuantile(std::move(bounds), 0.95);
    const bool is_assumed = p95 <= limit && !IsBoundProved(run.protection());
    finding.outcome = p95 > limit ? Outcome::kNotMet : is_assumed && require_proof ? Outcome::kOpen : Outcome::kMet;
    finding.found = absl::StrCat(BoundAgainstLimit(p95, limit), is_assumed ? kUnderAssumptions : "");
    if (p95 > limit && NearestRankQuantile(std::move(at_least), 0.95) <= limit) {
      finding.outcome = Outcome::kOpen;
      finding.found = absl::StrCat("not known: ", party.missing_steps());
      finding.remedy = kKeepStepsRemedy;
    }
  }
  return finding;
}

// "Gradient length (norm): lower 99.99% limit of its AUC 0.660, bound 0.650".
std::string DescribeExcess(const BoundExcess& excess) {
  const std::string by = AttackNamed(excess.attack);
  if (excess.epochs.empty()) {
    return absl::StrCat(by, ": see the run's events");
  }
  return absl::StrFormat("%s: lower 99.99%% limit of its AUC %.3f, bound %s", by, *excess.auc_at_least,
                         BoundText(*excess.auc_bound));
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
  // Whatever else is missing: one attack that certainly exceeded the bound refutes it.
  if (figures.bound() == BoundState::kExceeded) {
    finding.outcome = Outcome::kNotMet;
    finding.found = DescribeExcesses(figures.excesses);
    finding.where = PlaceOf(figures.excesses.front());
  } else if (figures.bound() == BoundState::kNoneStated) {
    finding.outcome = Outcome::kNotMet;
    finding.found = "no bound: the protection states none";
    finding.remedy =
        "Choose a protection that states one, or judge by measurements alone (require_no_bound_exceeded: false).";
    // It tells something only if this party itself scored the attack that adds up all epochs, the last one included.
  } else if (figures.bound() == BoundState::kNotExceeded &&
             std::any_of(party.epoch_leaks.begin(), party.epoch_leaks.end(), [&](const EpochLeakRow& row) {
               return IsWorstCase(row.attack) && IsCumulativeAttack(row.attack) && IsHeldAgainstBound(row) &&
                      row.epoch >= party.last_released_epoch();
             })) {
    finding.outcome = Outcome::kMet;
    finding.found = absl::StrCat(figures.is_proved() ? "proved; " : "", BoundStateWords(figures),
                                 figures.is_proved() ? "" : ", by a partner that follows the protocol");
  }
  return finding;
}

Finding BoundProved(const LedgerRun& run, const RunFigures& figures, const AllRunsBound& all_runs) {
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
  // The partner keeps what the earlier runs sent.
  if (finding.outcome == Outcome::kMet && all_runs.possible >= 1) {
    finding.outcome = Outcome::kOpen;
    finding.found = absl::StrCat("of this run alone", all_runs.doubt.empty() ? "" : ": ", all_runs.doubt);
    finding.remedy = kDoubtRemedy;
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
                          audit.is_conclusive()
                              ? ""
                              : ", too few, or rounded too coarsely, to detect noise at half the claimed strength"),
          "all releases at the cut layer",
          RemedyForExceededBound(run.protection())};
}

// What the label party of `run`, whose ledger is given, released of its labels.
LabelRun LabelRunOf(const LedgerRun& run) {
  const PartyRecords& party = *run.label_party();
  LabelRun of = LabelRunOf(party.record, party.label_releases, party.all_runs, party.events,
                           DecisionsOf(party.protections, party.removed_steps));
  if (const double bound = OwnBound(party); std::isfinite(bound)) {
    // Back to a divergence, which adds up over runs as AUCs do not.
    of.sum_kl = SumKlOfGaussianAuc(bound);
  }
  return of;
}

// And those that the account of the last of them has lost, which may have begun after it and ended before.
std::vector<LabelRun> WithLostRuns(std::vector<LabelRun> runs, const std::vector<LedgerRun>& all) {
  for (const LedgerRun& run : all) {
    const auto is_same = [&](const LabelRun& other) { return other.run.run_id == run.run_id(); };
    if (run.label_party() != nullptr && HasLost(runs.back().lost, run.run_id()) && absl::c_none_of(runs, is_same)) {
      runs.insert(runs.end() - 1, LabelRunOf(run));
    }
  }
  return runs;
}

}  // namespace

std::vector<AllRunsBound> BoundsOfAllRuns(const std::vector<LedgerRun>& runs) {
  std::vector<AllRunsBound> bounds;
  std::vector<LabelRun> label_runs;  // Up to the one at hand.
  for (const LedgerRun& run : runs) {
    const bool is_known = run.label_party() != nullptr;
    if (is_known) {
      label_runs.push_back(LabelRunOf(run));
    }
    bounds.push_back(is_known && !run.only_predicts() ? BoundOfAllRuns(WithLostRuns(label_runs, runs))
                                                      : AllRunsBound());
  }
  return bounds;
}

RunFigures FiguresWith(const LedgerRun& run, const AllRunsBound& all_runs) {
  RunFigures figures = FiguresOf(run);
  // Alone, the run's own figure says the same. Beside a proved bound only a proved sum may stand, and of all runs that
  // may be on the same labels.
  if (figures.is_proved()) {
    const double all = all_runs.not_proved.empty() ? all_runs.possible : 1;
    if (all_runs.runs > 1 || all > all_runs.known) {
      figures.all_runs_auc_bound = std::max(figures.all_runs_auc_bound, std::optional(all));
    }
  } else if (all_runs.runs > 1) {
    figures.all_runs_auc_bound = std::max(figures.all_runs_auc_bound, std::optional(all_runs.known));
  }
  return figures;
}

std::vector<RunFigures> FiguresOfAll(const std::vector<LedgerRun>& runs) {
  const std::vector<AllRunsBound> bounds = BoundsOfAllRuns(runs);
  std::vector<RunFigures> all;
  for (size_t i = 0; i < runs.size(); ++i) {
    all.push_back(FiguresWith(runs[i], bounds[i]));
  }
  return all;
}

std::vector<Finding> BoundFindings(const LedgerRun& run, const RunFigures& figures, const v1::AuditPolicy& policy,
                                   const AllRunsBound& of_all) {
  const AllRunsBound all_runs = policy.require_proved_bound() ? OnlyProved(of_all) : of_all;
  const PartyRecords nothing;
  const PartyRecords* const recorded = run.label_party();
  const PartyRecords& party = recorded != nullptr ? *recorded : nothing;
  std::vector<Finding> findings;
  if (policy.has_max_run_auc_bound()) {
    findings.push_back(RunBound(run, party, all_runs, policy.max_run_auc_bound()));
  }
  if (all_runs.limit < 1) {
    findings.push_back(LifetimeBound(party, all_runs));
  }
  const size_t sums = findings.size();
  if (policy.has_max_step_auc_bound_p95()) {
    findings.push_back(StepBound(run, party, policy.max_step_auc_bound_p95(), policy.require_proved_bound()));
  }
  const size_t proved = findings.size();
  if (policy.require_proved_bound()) {
    findings.push_back(BoundProved(run, figures, all_runs));
  }
  if (policy.require_no_bound_exceeded()) {
    findings.push_back(NoBoundExceeded(run, party, figures));
  }
  // Nothing was released, so that every bound is kept, even one that was not recorded; but sums count noised labels
  // that a head has learned from (LabelRunOf).
  if (party.released_nothing()) {
    for (size_t i = party.label_releases.empty() || !all_runs.counts_last ? 0 : sums; i < findings.size(); ++i) {
      findings[i].outcome = Outcome::kMet;
      findings[i].found = kNothingLeft;
      findings[i].where.clear();
    }
  }
  // Whatever bounds the gradients: answers are not in it.
  if (const std::string answers = DescribeUnprovedAnswers(party); !answers.empty()) {
    for (size_t i = 0; i < findings.size(); ++i) {
      if (i < sums || (i == proved && policy.require_proved_bound())) {
        findings[i].outcome = Outcome::kNotMet;
        findings[i].found = answers;
        findings[i].where = "label_party serve";
        findings[i].remedy = kUnprovedRemedy;
      }
    }
  }
  if (const ClaimCheckRow* const claim = figures.checked_claim(); claim != nullptr) {
    findings.push_back(ClaimNotRefuted(run, *claim));
  }
  return findings;
}

}  // namespace splitveil
