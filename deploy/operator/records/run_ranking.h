// The one figure that runs are ranked by: the strongest attack, and whether the bound on it holds.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_RECORDS_RUN_RANKING_H_
#define SPLITVEIL_DEPLOY_OPERATOR_RECORDS_RUN_RANKING_H_

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "deploy/operator/records/run_records.h"

namespace splitveil {

enum class BoundState {
  kNotInLedger,  // The label party's ledger, which alone states bounds, was not given.
  kNoneStated,   // The protection promises nothing, or no more than that an AUC is at most 1.
  kNotTested,    // A bound is stated, and no attack was held against it.
  kHolds,        // No attack measurably exceeds it.
  kExceeded,
};

// An attack that measurably reads more than the noise allows, all its epochs together.
struct BoundExcess {
  std::string layer, attack;
  double auc_at_least = 0, auc_bound = 0;  // Of the epoch in which it exceeds the bound the most. NaN: an event alone.
  std::vector<int64_t> epochs;             // From 1, ascending.
};

struct RunRanking {
  std::string layer, attack, observer;  // The strongest attack; all empty where none was measured.
  // AttackLeak::measured_auc; NaN where none was measured.
  double measured_auc = std::numeric_limits<double>::quiet_NaN();
  // GuessingAucP95; NaN where the ledgers do not tell.
  double guessing_auc_p95 = std::numeric_limits<double>::quiet_NaN();
  BoundState bound = BoundState::kNotInLedger;
  std::vector<BoundExcess> excesses;  // One an attack and layer, the strongest first. Empty unless kExceeded.
};

// Attacks that use given labels are never the strongest: they say nothing of the gradients' leak by themselves.
RunRanking RankRun(const RunRecords& run);

// "unknown", "none", "untested", "holds", "exceeded": for pages and tables.
std::string BoundStateName(BoundState state);

// "holds", "exceeded by Gradient length", "none stated", "not tested", "not measurable from this ledger".
std::string BoundStateWords(const RunRanking& ranking);

// "strongest attack: Gradient length (norm) at the cut layer, AUC 0.731; guessing 0.541; bound: holds".
std::string RankingLine(const RunRanking& ranking);

// "the cut layer", "layer "first"".
std::string DescribeLayer(const std::string& layer);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_RECORDS_RUN_RANKING_H_
