#include "deploy/operator/records/run_ranking.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "deploy/operator/records/attack_leak.h"
#include "deploy/operator/records/guessing.h"

#include "common/leakage/attack_words.h"
#include "common/leakage/bound_basis.h"
#include "common/leakage/bounds.h"
#include "common/ledger/run_claim.h"

namespace splitveil {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

BoundExcess& Entry(std::vector<BoundExcess>& excesses, const std::string& layer, const std::string& attack) {
  for (BoundExcess& known : excesses) {
    if (known.layer == layer && known.attack == attack) {
      return known;
    }
  }
  return excesses.emplace_back(BoundExcess{layer, attack, kNone, kNone, {}});
}

// By the rows of the epochs; where a run ended before it wrote them, by the label party's events: "epoch 3: norm at
// cut: AUC at least ...".
std::vector<BoundExcess> Excesses(const PartyRecords& party) {
  std::vector<BoundExcess> excesses;
  for (const EpochLeakRow& row : party.epoch_leaks) {
    if (!ExceedsBound(row)) {
      continue;
    }
    BoundExcess& excess = Entry(excesses, row.layer, row.attack);
    excess.epochs.push_back(row.epoch + 1);
    if (!(AucAtLeast(row) - row.gaussian_auc_bound <= excess.auc_at_least - excess.auc_bound)) {
      excess.auc_at_least = AucAtLeast(row);
      excess.auc_bound = row.gaussian_auc_bound;
      excess.worst_epoch = row.epoch + 1;
    }
  }
  const bool by_rows = !excesses.empty();
  for (const EventRecord& event : party.events) {
    if (event.kind != "bound_exceeded" || by_rows) {
      continue;
    }
    const std::vector<std::string> parts = absl::StrSplit(event.detail, absl::MaxSplits(": ", 2));
    const std::vector<std::string> place = absl::StrSplit(parts.size() > 1 ? parts[1] : "", " at ");
    Entry(excesses, place.size() == 2 ? place[1] : "cut", place.size() == 2 ? place[0] : "an attack");
  }
  std::stable_sort(excesses.begin(), excesses.end(),
                   [](const BoundExcess& a, const BoundExcess& b) { return a.auc_at_least > b.auc_at_least; });
  return excesses;
}

// NaN: none is stated.
double StepAucBoundP95(const PartyRecords& party) {
  std::vector<double> bounds;
  for (const ProtectionRow& row : party.protections) {
    if (IsReleased(row)) {
      bounds.push_back(StepAucBound(row.auc_bound, row.sum_kl));
    }
  }
  return splitveil::StepAucBoundP95(std::move(bounds));
}

bool IsTested(const PartyRecords& party) {
  return std::any_of(party.epoch_leaks.begin(), party.epoch_leaks.end(), [&](const EpochLeakRow& row) {
    return row.observer == party.record.run.role && std::isfinite(row.auc_low) && std::isfinite(row.gaussian_auc_bound);
  });
}

// The accountant's figure stands beside the cumulative attacks at the cut layer, where the noise is added. The claim
// has it where none of them ran, and is more where a run could have released more than it did.
double RunAucBound(const PartyRecords& party) {
  int64_t last_epoch = -1;
  double bound = kNone;
  for (const EpochLeakRow& row : party.epoch_leaks) {
    if (row.layer == "cut" && IsCumulativeAttack(row.attack) && std::isfinite(row.gaussian_auc_bound) &&
        row.epoch > last_epoch) {
      last_epoch = row.epoch;
      bound = row.gaussian_auc_bound;
    }
  }
  if (party.claim_check.has_value()) {
    const double claimed = GaussianAucBound(party.claim_check->claimed_mu * party.claim_check->claimed_mu);
    bound = std::fmax(bound, claimed);
  }
  return bound;
}

RankedAttack Ranked(const AttackLeak& leak) {
  RankedAttack ranked = {leak.layer, leak.attack, leak.observer, leak.auc()};
  if (!leak.epochs.empty()) {
    ranked.tpr_1pct = leak.epochs.back()->tpr_1pct;
    ranked.tpr_01pct = leak.epochs.back()->tpr_01pct;
  }
  return ranked;
}

// Over the whole run where the cumulative one ran, else over its last epoch.
RankedAttack WorstCase(const PartyRecords& party) {
  const EpochLeakRow* worst = nullptr;
  for (const EpochLeakRow& row : party.epoch_leaks) {
    if (!IsWorstCase(row.attack) || row.layer != "cut" || row.observer != party.record.run.role ||
        !std::isfinite(row.auc)) {
      continue;
    }
    const bool cumulative = IsCumulativeAttack(row.attack);
    if (worst == nullptr || (cumulative && !IsCumulativeAttack(worst->attack)) ||
        (row.attack == worst->attack && row.epoch > worst->epoch)) {
      worst = &row;
    }
  }
  return worst == nullptr ? RankedAttack()
                          : RankedAttack{worst->layer, worst->attack, worst->observer, InvertedAuc(worst->auc)};
}

RunClaim ClaimOf(const RunRecords& run, const PartyRecords& party) {
  RunClaim claim;
  claim.protection = run.protection();
  claim.released = !run.released_nothing();
  claim.run_auc_bound = RunAucBound(party);
  claim.step_auc_bound_p95 = StepAucBoundP95(party);
  claim.worst_case_tested = WorstCase(party).is_measured();
  claim.exceeded = !Excesses(party).empty();
  claim.claim_check = party.claim_check;
  return claim;
}

}  // namespace

const RankedAttack& RunRanking::strongest() const {
  return with_side_information.is_measured() && !(practical.auc >= with_side_information.auc) ? with_side_information
                                                                                              : practical;
}

RunRanking RankRun(const RunRecords& run) {
  RunRanking ranking;
  ranking.guessing = GuessingOf(run);
  for (const AttackLeak& leak : AttackLeaks(run)) {  // The strongest first.
    if (leak.auc() > 0 &&
        (leak.attack == "features_only" || (leak.attack == "activation_clusters" && !ranking.baseline.is_measured()))) {
      ranking.baseline = Ranked(leak);
    }
    if (UsesGivenLabels(leak.attack) || !(leak.auc() > 0)) {
      continue;
    }
    RankedAttack& kind = !ReadsGradients(leak.attack)          ? ranking.no_gradient
                         : NeedsNoSideInformation(leak.attack) ? ranking.practical
                                                               : ranking.with_side_information;
    if (!kind.is_measured()) {
      kind = Ranked(leak);
    }
  }
  if (const PartyRecords* party = run.label_party(); party != nullptr) {
    const RunClaim claim = ClaimOf(run, *party);
    ranking.excesses = Excesses(*party);
    ranking.proved = IsBoundProved(run.protection());
    ranking.bound = claim.exceeded          ? BoundState::kExceeded
                    : !claim.released       ? BoundState::kNothingLeft
                    : !claim.states_bound() ? BoundState::kNoneStated
                    : IsTested(*party)      ? BoundState::kNotExceeded
                                            : BoundState::kNotTested;
    ranking.run_auc_bound = claim.run_auc_bound;
    ranking.worst_case = WorstCase(*party);
    ranking.all_runs = party->all_runs;
    ranking.standing = StandingOf(claim);
    if (ranking.standing != RunStanding::kNothingClaimed) {
      ranking.claim_check = party->claim_check;
    }
  }
  return ranking;
}

std::string BoundStateName(BoundState state) {
  switch (state) {
    case BoundState::kNotInLedger:
      return "unknown";
    case BoundState::kNothingLeft:
      return "nothing_left";
    case BoundState::kNoneStated:
      return "none";
    case BoundState::kNotTested:
      return "untested";
    case BoundState::kNotExceeded:
      return "not_exceeded";
    case BoundState::kExceeded:
      break;
  }
  return "exceeded";
}

std::string BoundStateWords(const RunRanking& ranking) {
  switch (ranking.bound) {
    case BoundState::kNotInLedger:
      return "not measurable from this ledger";
    case BoundState::kNothingLeft:
      return "no gradient left";
    case BoundState::kNoneStated:
      return "none stated";
    case BoundState::kNotTested:
      return absl::StrCat(ranking.proved ? "proved; " : "", "no attack was held against it");
    case BoundState::kNotExceeded:
      return absl::StrCat(ranking.proved ? "proved; " : "", "not exceeded by the attacks run here");
    case BoundState::kExceeded:
      break;
  }
  return absl::StrCat("exceeded by ", AttackTitle(ranking.excesses.front().attack),
                      ranking.excesses.size() > 1 ? absl::StrCat(" and ", ranking.excesses.size() - 1, " more") : "");
}

std::string DescribeLayer(const std::string& layer) {
  return layer == "cut" ? std::string("the cut layer") : absl::StrCat("layer \"", layer, "\"");
}

std::string DescribeRanked(const RankedAttack& attack) {
  return attack.is_measured() ? absl::StrFormat("%s at %s, AUC %.3f", AttackNamed(attack.attack),
                                                DescribeLayer(attack.layer), attack.auc)
                              : std::string("none measured");
}

std::string BoundKindWords(const RunRanking& ranking) {
  return ranking.bound < BoundState::kNotTested ? "–" : ranking.proved ? "proved" : "conditional";
}

double ProvedAucBound(const RunRanking& ranking) {
  return ranking.proved && ranking.run_auc_bound < kNoPromise ? ranking.run_auc_bound : kNone;
}

std::string ProvedWords(const RunRanking& ranking) {
  switch (ranking.bound) {
    case BoundState::kNotInLedger:
      return "not measurable from this ledger";
    case BoundState::kNothingLeft:
      return "no gradient left";
    case BoundState::kNoneStated:
      return "nothing";
    default:
      break;
  }
  std::string bound = ranking.run_auc_bound < kNoPromise
                          ? absl::StrFormat("AUC at most %.3f over the whole run", ranking.run_auc_bound)
                          : "a bound on single steps, none over the whole run";
  if (ranking.all_runs.has_value()) {
    absl::StrAppendFormat(&bound, " and %.3f over all runs up to it in its privacy account",
                          ranking.all_runs->auc_bound);
  }
  return ranking.proved ? absl::StrCat(bound, ", for any adversary, beyond what both parties' features tell")
                        : absl::StrCat("nothing; conditional: ", bound);
}

std::string AdvantageWords(const RankedAttack& attack, const RunRanking& ranking) {
  if (!ranking.baseline.is_measured()) {
    return "not measured: neither features_only nor activation_clusters was run";
  }
  if (!attack.is_measured()) {
    return "none measured";
  }
  const double advantage = attack.auc - ranking.baseline.auc;
  return absl::StrFormat("%.3f %s %s, AUC %.3f", std::abs(advantage), advantage < 0 ? "below" : "above",
                         AttackTitle(ranking.baseline.attack), ranking.baseline.auc);
}

std::vector<std::string> RankingLines(const RunRanking& ranking) {
  std::vector<std::string> lines = {
      absl::StrCat("strongest attack on gradients: ", DescribeRanked(ranking.strongest())),
      absl::StrCat("bound: ", absl::StripPrefix(BoundStateWords(ranking), "proved; "))};
  if (ranking.bound == BoundState::kNotInLedger) {
    lines.push_back("verdict and worst case: not measurable from this ledger, only from the label party's");
  } else {
    lines.push_back(absl::StrCat("verdict: ", StandingWords(ranking.standing)));
    lines.push_back(absl::StrCat("proved: ", ProvedWords(ranking)));
    lines.push_back(absl::StrCat("worst case measured: ", DescribeRanked(ranking.worst_case)));
  }
  lines.push_back(absl::StrCat("practical, without side information: ", DescribeRanked(ranking.practical)));
  lines.push_back(absl::StrCat("with side information: ", DescribeRanked(ranking.with_side_information)));
  if (ranking.practical.is_measured()) {
    lines.push_back(
        absl::StrCat("practical attack beside features alone: ", AdvantageWords(ranking.practical, ranking)));
  }
  if (ranking.claim_check.has_value()) {
    lines.push_back(DescribeClaimCheck(*ranking.claim_check));
  }
  if (std::isfinite(ranking.guessing.p95)) {
    lines.push_back(absl::StrFormat("guessing: p95 %.3f", ranking.guessing.p95));
  }
  if (ranking.no_gradient.is_measured()) {
    lines.push_back(absl::StrCat("without any gradient: ", DescribeRanked(ranking.no_gradient)));
  }
  return lines;
}

}  // namespace splitveil
