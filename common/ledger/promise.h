// What a run promises of the labels, in one sentence that a privacy officer can sign: the same on pages and in the
// terminal.
#ifndef SPLITVEIL_COMMON_LEDGER_PROMISE_H_
#define SPLITVEIL_COMMON_LEDGER_PROMISE_H_

#include <limits>
#include <string>

#include "common/leakage/run_standing.h"

namespace splitveil {

// An AUC is told as a certainty in percent: of two customers with different labels, how often an attacker puts the
// right one first. 50% is guessing.
struct Promise {
  RunStanding standing = RunStanding::kNotKnown;
  // Bounds on an AUC: of all releases of the run, and with those of earlier runs in its privacy account. NaN, or from
  // kNoPromise on: none.
  double run_auc_bound = std::numeric_limits<double>::quiet_NaN();
  double all_runs_auc_bound = std::numeric_limits<double>::quiet_NaN();
  // The strongest attack that can be held against the bound: under a proved one the worst case, which takes out what
  // features tell, else any attack on gradients. NaN: none was measured.
  double measured_auc = std::numeric_limits<double>::quiet_NaN();
};

// "69.9%", "70%": to a tenth, nearest for a measurement; upwards for a bound, since less would promise too much.
std::string MeasuredCertainty(double auc);
std::string BoundCertainty(double auc_bound);

// "Whatever the partner does with what it received, it tells two customers who differ in nothing but their label apart
// with at most 70% certainty; measured on the worst attack: 69.9%." Only a proved bound is told as a promise: a
// conditional one is named with its conditions, after what was measured.
std::string PromiseSentence(const Promise& promise);

// "May be promised to anyone", "Measured only, not a promise": what to do with the sentence, in a few words.
std::string PromiseHeadline(const Promise& promise);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_LEDGER_PROMISE_H_
