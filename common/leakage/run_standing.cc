#include "common/leakage/run_standing.h"

#include "common/leakage/attack_traits.h"

namespace splitveil {

RunStanding StandingOf(const StandingFacts& facts) {
  if (facts.exceeded || facts.claim_refuted) {
    return RunStanding::kBroken;
  }
  if (!facts.released) {
    return RunStanding::kNothingReleased;
  }
  if (!facts.claims_bound) {
    return RunStanding::kNothingClaimed;
  }
  if (facts.proved) {
    return facts.claim_checked ? RunStanding::kGuaranteed : RunStanding::kUnchecked;
  }
  return facts.worst_case_tested ? RunStanding::kHolds : RunStanding::kUntested;
}

std::string StandingWords(RunStanding standing) {
  switch (standing) {
    case RunStanding::kNotKnown:
      return "not known";
    case RunStanding::kNothingReleased:
      return "no gradient left";
    case RunStanding::kNothingClaimed:
      return "nothing claimed";
    case RunStanding::kUntested:
      return "claimed, the worst case was not measured";
    case RunStanding::kHolds:
      return "holds as far as measured";
    case RunStanding::kUnchecked:
      return "proved, not checked";
    case RunStanding::kGuaranteed:
      return "guaranteed";
    case RunStanding::kBroken:
      break;
  }
  return "broken";
}

bool IsWorstCase(absl::string_view attack) {
  return attack == AttackName(v1::CONDITIONAL_LIKELIHOOD_RATIO) ||
         attack == AttackName(v1::CUMULATIVE_CONDITIONAL_LIKELIHOOD_RATIO);
}

}  // namespace splitveil
