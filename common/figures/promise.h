// What a run promises of the labels, in one sentence that a privacy officer can sign: the same on pages and in the
// terminal.
#ifndef SPLITVEIL_COMMON_FIGURES_PROMISE_H_
#define SPLITVEIL_COMMON_FIGURES_PROMISE_H_

#include <optional>
#include <string>

#include "common/figures/run_figures.h"

namespace splitveil {

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
};

// The strongest attack that can be held against the run's bound: under a proved bound, which is about what gradients
// add to features, the worst case; else the strongest of all on gradients. Null: none was measured.
const AttackFigure* HeldAgainstBound(const RunFigures& figures);

Promise PromiseOf(const RunFigures& figures);

// "69.9%", "70%": to a tenth, nearest for a measurement; upwards for a bound, since less would promise too much.
std::string MeasuredCertainty(double auc);
std::string BoundCertainty(double auc_bound);

// "Whatever the partner does with what it received, it can tell apart two customers who differ only in their label
// with at most 70% certainty. The worst attack measured reached 69.9%." Only a proved bound is told as a promise: a
// conditional one is named with its conditions, after what was measured.
std::string PromiseSentence(const Promise& promise);

// "May be promised to anyone", "Measured only, not a promise": what to do with the sentence, in a few words.
std::string PromiseHeadline(const Promise& promise);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_FIGURES_PROMISE_H_
