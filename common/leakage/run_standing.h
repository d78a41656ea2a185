// The verdict on what a run promises: one of a few words, the same wherever it is told.
#ifndef SPLITVEIL_COMMON_LEAKAGE_RUN_STANDING_H_
#define SPLITVEIL_COMMON_LEAKAGE_RUN_STANDING_H_

#include <string>

#include "absl/strings/string_view.h"

namespace splitveil {

enum class RunStanding {
  kNotKnown,         // The records that would say it were not given.
  kNothingReleased,  // No gradient left the label party.
  kNothingClaimed,   // The protection states no bound.
  kUntested,         // A bound that is not proved, and the worst case was not measured.
  kHolds,            // A bound that is not proved, and the worst case measured does not exceed it. No more than that.
  kUnchecked,        // A proved bound, and too little was measured to see whether the programs keep it.
  kGuaranteed,       // A proved bound that enough was held against, and nothing contradicts: the programs keep it.
  kBroken,           // More was read than the bound allows, or the run's own scores refute the mu that it claims.
};

struct StandingFacts {
  bool released = true;            // A gradient left.
  bool claims_bound = false;       // Below 1.
  bool proved = false;             // The bound: IsBoundProved.
  bool worst_case_tested = false;  // By conditional_likelihood_ratio or its cumulative form: nobody can exceed them.
  bool exceeded = false;           // By any attack of the label party's own.
  bool claim_checked = false;      // ClaimCheckRow::is_conclusive.
  bool claim_refuted = false;      // ClaimCheckRow::is_refuted.
};

RunStanding StandingOf(const StandingFacts& facts);

// "guaranteed", "holds as far as measured", "broken"; where there is no verdict, "proved, not checked", "claimed, the
// worst case was not measured", "nothing claimed", "no gradient left", "not known".
std::string StandingWords(RunStanding standing);

// The attack that knows all but the label and the noise, of one release or summed over the epochs.
bool IsWorstCase(absl::string_view attack);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_LEAKAGE_RUN_STANDING_H_
