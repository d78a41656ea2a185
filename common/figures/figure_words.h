// The one wording of a run's bound and verdict, for the terminal, RESULT, the report and the audit.
#ifndef SPLITVEIL_COMMON_FIGURES_FIGURE_WORDS_H_
#define SPLITVEIL_COMMON_FIGURES_FIGURE_WORDS_H_

#include <string>

#include "common/figures/run_figures.h"

namespace splitveil {

// "guaranteed", "holds as far as measured", "broken"; if there is no verdict, "proved, not checked", "claimed, the
// worst case was not measured", "nothing claimed", "no gradient released", "not known".
std::string VerdictWords(PrivacyVerdict verdict);

// "unknown", "nothing_left", "none", "untested", "not_exceeded", "exceeded": for pages and tables.
std::string BoundStateName(BoundState state);

// How texts name the attack that exceeds a bound.
enum class AttackNaming {
  kTitle,  // "Gradient length"
  kName    // "norm at cut"
};

// "not exceeded by the attacks run here", "exceeded by Gradient length and 2 more", "none stated", "no attack was held
// against it", "no gradient released", "not measurable from this ledger". Unless it is proved, a bound that is stated
// is conditional: it holds for Gaussian classes only, and no run shows that it does. Say so beside it.
std::string BoundStateWords(const RunFigures& figures, AttackNaming naming = AttackNaming::kTitle);

// "proved", "conditional"; "none" if there is no bound.
std::string BoundKindName(const RunFigures& figures);

// "AUC at most 0.700 over the whole run, for any adversary, beyond what both parties' features tell (own features: AUC
// 0.620)", "nothing; conditional: AUC at most 0.786 over the whole run", "nothing".
std::string ProvedWords(const RunFigures& figures);

// AUC of the attack less the baseline's: "0.120 below Features alone, AUC 0.710"; says so if there is no baseline. Null
// `attack`: none was measured.
std::string AdvantageWords(const AttackFigure* attack, const RunFigures& figures);

// "the cut layer", "layer "first"".
std::string DescribeLayer(const std::string& layer);

// "Gradient length (norm) at the cut layer, AUC 0.731"; "none measured" for null.
std::string DescribeAttack(const AttackFigure* attack);

// "claimed mu 0.742; measured mu at least 0.510 (95% confidence), at least 0.402 (99.99%): claim not refuted", and
// "; too few to detect noise at half the claimed strength" if they are.
std::string DescribeClaimCheck(const ClaimCheckRow& check);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_FIGURES_FIGURE_WORDS_H_
