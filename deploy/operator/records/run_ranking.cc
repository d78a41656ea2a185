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
#include "deploy/operator/records/attack_leak.h"
#include "deploy/operator/records/attack_words.h"
#include "deploy/operator/records/guessing.h"

#include "common/leakage/bound_basis.h"

namespace splitveil {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr double kNoPromise = 0.9995;  // A bound that is printed as 1.000 promises nothing.

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

bool StatesBound(const PartyRecords& party) {
  return std::any_of(party.protections.begin(), party.protections.end(),
                     [](const ProtectionRow& row) { return IsReleased(row) && row.auc_bound < kNoPromise; }) ||
         std::any_of(party.epoch_leaks.begin(), party.epoch_leaks.end(),
                     [](const EpochLeakRow& row) { return row.gaussian_auc_bound < kNoPromise; });
}

bool IsTested(const PartyRecords& party) {
  return std::any_of(party.epoch_leaks.begin(), party.epoch_leaks.end(), [&](const EpochLeakRow& row) {
    return row.observer == party.record.run.role && std::isfinite(row.auc_low) && std::isfinite(row.gaussian_auc_bound);
  });
}

}  // namespace

const RankedAttack& RunRanking::strongest() const {
  return aided.is_measured() && !(unaided.auc >= aided.auc) ? aided : unaided;
}

RunRanking RankRun(const RunRecords& run) {
  RunRanking ranking;
  ranking.guessing = GuessingOf(run);
  for (const AttackLeak& leak : AttackLeaks(run)) {  // The strongest first.
    if (UsesGivenLabels(leak.attack) || !(leak.measured_auc() > 0)) {
      continue;
    }
    RankedAttack& kind = !ReadsGradients(leak.attack)          ? ranking.no_gradient
                         : NeedsNoSideInformation(leak.attack) ? ranking.unaided
                                                               : ranking.aided;
    if (!kind.is_measured()) {
      kind = {leak.layer, leak.attack, leak.observer, leak.measured_auc()};
    }
  }
  if (const PartyRecords* party = run.label_party(); party != nullptr) {
    ranking.excesses = Excesses(*party);
    ranking.proved = IsBoundProved(run.protection());
    ranking.bound = !ranking.excesses.empty() ? BoundState::kExceeded
                    : !StatesBound(*party)    ? BoundState::kNoneStated
                    : IsTested(*party)        ? BoundState::kNotExceeded
                                              : BoundState::kNotTested;
  }
  return ranking;
}

std::string BoundStateName(BoundState state) {
  switch (state) {
    case BoundState::kNotInLedger:
      return "unknown";
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
    case BoundState::kNoneStated:
      return "none stated";
    case BoundState::kNotTested:
      return absl::StrCat(ranking.proved ? "proved; " : "", "no attack was held against it");
    case BoundState::kNotExceeded:
      return absl::StrCat(ranking.proved ? "proved; " : "", "not exceeded by the attacks run here");
    case BoundState::kExceeded:
      break;
  }
  return absl::StrCat("exceeded by ", AttackTitle(ranking.excesses.front().attack));
}

std::string DescribeLayer(const std::string& layer) {
  return layer == "cut" ? std::string("the cut layer") : absl::StrCat("layer \"", layer, "\"");
}

std::string DescribeRanked(const RankedAttack& attack) {
  return attack.is_measured() ? absl::StrFormat("%s at %s, AUC %.3f", AttackNamed(attack.attack),
                                                DescribeLayer(attack.layer), attack.auc)
                              : std::string("none measured");
}

std::vector<std::string> RankingLines(const RunRanking& ranking) {
  std::vector<std::string> lines = {
      absl::StrCat("strongest attack on gradients without side information: ", DescribeRanked(ranking.unaided)),
      absl::StrCat("with side information: ", DescribeRanked(ranking.aided))};
  if (std::isfinite(ranking.guessing.p95)) {
    lines.push_back(absl::StrFormat("guessing: p95 %.3f", ranking.guessing.p95));
  }
  lines.push_back(
      absl::StrCat(ranking.proved ? "bound: " : "bound, if classes are Gaussian: ", BoundStateWords(ranking)));
  if (ranking.no_gradient.is_measured()) {
    lines.push_back(absl::StrCat("without any gradient: ", DescribeRanked(ranking.no_gradient)));
  }
  return lines;
}

}  // namespace splitveil
