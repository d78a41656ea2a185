// The one wording of a run for the terminal, RESULT, pages and the audit: its bound, its verdict, and what it promises
// of the labels in one sentence that a privacy officer can sign.
#ifndef SPLITVEIL_COMMON_FIGURES_FIGURE_WORDS_H_
#define SPLITVEIL_COMMON_FIGURES_FIGURE_WORDS_H_

#include <optional>
#include <string>

#include "common/figures/run_figures.h"

namespace splitveil {

// "guaranteed", "not refuted", "broken"; if there is no verdict, "proved, not checked", "claimed, the
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
// against it", "no gradient released", "not measurable from this ledger"; of a claim that the run's own scores refute,
// also " but refuted by the claim check". Unless it is proved, a bound that is stated is conditional: it holds for
// Gaussian classes only, and no run shows that it does. Say so beside it.
std::string BoundStateWords(const RunFigures& figures, AttackNaming naming = AttackNaming::kTitle);

// "proved", "conditional"; "none" if there is no bound.
std::string BoundKindName(const RunFigures& figures);

// "AUC at most 0.700 over the whole run, for any adversary, beyond what both parties' features tell (own features: AUC
// 0.620)", "nothing; conditional: AUC at most 0.786 over the whole run", "nothing".
std::string ProvedWords(const RunFigures& figures);

// AUC of the attack less the baseline's, over all examples with their intervals where both were scored so: "0.120 below
// Features alone, AUC 0.710 (over all examples; 95% intervals ...)"; says so if there is no baseline. Null
// `attack`: none was measured.
std::string AdvantageWords(const AttackFigure* attack, const RunFigures& figures);

// "the cut layer", "layer "first"".
std::string DescribeLayer(const std::string& layer);

// "Gradient length (norm) at the cut layer, AUC 0.731"; "none measured" for null.
std::string DescribeAttack(const AttackFigure* attack);

// "claimed mu 0.742; measured mu at least 0.510 (95% confidence), at least 0.402 (99.99%): claim not refuted", and
// "; too few examples, or rounded too coarsely, to detect noise at half the claimed strength" if they are.
std::string DescribeClaimCheck(const ClaimCheckRow& check);

// An AUC is told as a certainty in percent: of two customers with different labels, how often an attacker puts the
// right one first. 50% is guessing.
struct Promise {
  PrivacyVerdict verdict = PrivacyVerdict::kNotKnown;
  // Bounds on an AUC: of all releases of the run, and with those of earlier runs in its privacy account. nullopt, or
  // from kNoPromise on: none.
  std::optional<double> run_auc_bound, all_runs_auc_bound;
  // The strongest attack that can be held against the bound: under a proved one the worst case, which takes out what
  // features tell, else any attack on gradients. nullopt: none was measured.
  std::optional<double> measured_auc;
  // Of a broken run: what contradicts its bound, "the claim check found mu at least 1.020, and the run claims 0.876".
  std::string contradiction;
};

// The strongest attack that can be held against the run's bound: under a proved bound, which is about what gradients
// add to features, the worst case; else the strongest of all on gradients. Null: none was measured.
const AttackFigure* HeldAgainstBound(const RunFigures& figures);

Promise PromiseOf(const RunFigures& figures);

// "69.9%", "70%": to a tenth, nearest for a measurement; upwards for a bound, since less would promise too much.
std::string MeasuredCertainty(double auc);
std::string BoundCertainty(double auc_bound);
// The same number as an AUC, "0.700", rounded upwards as BoundCertainty is.
std::string BoundText(double auc_bound);

// "Whatever the partner does with what it received, it can tell apart two customers who differ only in their label
// with at most 70% certainty. The worst case measured reached 69.9%." Only a proved bound is told as a promise: a
// conditional one is named with its conditions, after what was measured.
std::string PromiseSentence(const Promise& promise);

// "May be promised to anyone", "Measured only, not a promise": what to do with the sentence, in a few words.
std::string PromiseHeadline(const Promise& promise);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_FIGURES_FIGURE_WORDS_H_
