// The one figure that runs are ranked by: the strongest attack on gradients, and what became of the bound on such
// attacks.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_RECORDS_RUN_RANKING_H_
#define SPLITVEIL_DEPLOY_OPERATOR_RECORDS_RUN_RANKING_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "deploy/operator/records/run_records.h"

#include "common/leakage/guessing.h"
#include "common/leakage/run_standing.h"

namespace splitveil {

enum class BoundState {
  kNotInLedger,  // The label party's ledger, which alone states bounds, was not given.
  kNothingLeft,  // No gradient left: there is nothing to bound.
  kNoneStated,   // The protection promises nothing, or no more than that an AUC is at most 1.
  kNotTested,    // A bound is stated, and no attack was held against it.
  kNotExceeded,  // By the attacks that were run. Nothing shows that it holds.
  kExceeded,
};

// An attack that measurably reads more than the noise allows, all its epochs together.
struct BoundExcess {
  std::string layer, attack;
  double auc_at_least = 0, auc_bound = 0;  // Of the epoch in which it exceeds the bound the most. NaN: an event alone.
  std::vector<int64_t> epochs;             // From 1, ascending.
  int64_t worst_epoch = 0;                 // From 1: that epoch. 0: not known.
};

// An attack and its figure (MeasuredAttack::auc). No attack: none was measured.
struct RankedAttack {
  std::string layer, attack, observer;
  double auc = std::numeric_limits<double>::quiet_NaN();
  // True positive rates at false positive rates of 1% and 0.1%, over its last epoch; NaN where it has no figure there.
  double tpr_1pct = std::numeric_limits<double>::quiet_NaN();
  double tpr_01pct = std::numeric_limits<double>::quiet_NaN();

  bool is_measured() const { return !attack.empty(); }
};

// What an adversary reads without any gradient, against which attacks on gradients are held: features_only where it
// ran, else activation_clusters. No attack: neither was measured.
using Baseline = RankedAttack;

struct RunRanking {
  RankedAttack practical;              // The strongest on gradients without side information,
  RankedAttack with_side_information;  // and with it: hints, or the true moments of the classes.
  RankedAttack no_gradient;            // The strongest that reads no gradient: neither noise nor a bound is about it.
  Guessing guessing;                   // GuessingOf; NaN where the ledgers do not tell.
  BoundState bound = BoundState::kNotInLedger;
  bool proved = false;  // The bound, if there is one: IsBoundProved.
  // What all releases together allow, by the accountant; NaN: not bounded, or not recorded.
  double run_auc_bound = std::numeric_limits<double>::quiet_NaN();
  RankedAttack worst_case;                   // IsWorstCase; the cumulative one where it ran, over all its epochs.
  std::optional<ClaimCheckRow> claim_check;  // nullopt: none recorded, or of a run that claims nothing.
  std::optional<AllRunsRow> all_runs;
  RunStanding standing = RunStanding::kNotKnown;
  Baseline baseline;
  std::vector<BoundExcess> excesses;  // One an attack and layer, the strongest first. Empty unless kExceeded.

  // The stronger of `practical` and `with_side_information`, the first where they are equal: what runs are ranked by.
  const RankedAttack& strongest() const;
};

// Attacks that use given labels are left out: they say nothing of the gradients' leak by themselves.
RunRanking RankRun(const RunRecords& run);

// "unknown", "nothing_left", "none", "untested", "not_exceeded", "exceeded": for pages and tables.
std::string BoundStateName(BoundState state);

// "not exceeded by the attacks run here", "exceeded by Gradient length", "none stated", "no attack was held against
// it", "no gradient left", "not measurable from this ledger". What is stated is conditional: say so beside it,
// unless the words begin with "proved".
std::string BoundStateWords(const RunRanking& ranking);

// "Gradient length (norm) at the cut layer, AUC 0.731", "none measured".
std::string DescribeRanked(const RankedAttack& attack);

// What runs are ranked by, the verdict, what is proved, what the worst case was measured to read and what a partner can
// do today, one line each:
//   "strongest attack on gradients: ..."
//   "bound: not exceeded by the attacks run here"
//   "verdict: holds as far as measured"
//   "proved: nothing; conditional: AUC at most 0.786 over the whole run"
//   "worst case measured: ..."
//   "practical, without side information: ..."
//   "with side information: ..."
// The third to the fifth are one where the label party's ledger was not given. Then, where they are known, what the
// practical attack reads beside features alone, "claimed mu 0.742; ...", "guessing: p95 0.541" and "without any
// gradient: ...".
std::vector<std::string> RankingLines(const RunRanking& ranking);

// Of the whole run, where it is proved; else NaN.
double ProvedAucBound(const RunRanking& ranking);

// "proved", "conditional"; "–" where there is no bound.
std::string BoundKindWords(const RunRanking& ranking);

// "AUC at most 0.700 over the whole run, for any adversary, beyond what both parties' features tell", "nothing;
// conditional: AUC at most 0.786 over the whole run", "nothing".
std::string ProvedWords(const RunRanking& ranking);

// AUC of the attack less the baseline's: "0.120 below Features alone, AUC 0.710"; says so where there
// is no baseline.
std::string AdvantageWords(const RankedAttack& attack, const RunRanking& ranking);

// "the cut layer", "layer "first"".
std::string DescribeLayer(const std::string& layer);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_RECORDS_RUN_RANKING_H_
