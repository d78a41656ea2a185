// What a run's records say of its promise, and the verdict on it: asked by the run itself and by whoever reads its
// ledger, who are to say the same.
#ifndef SPLITVEIL_COMMON_LEDGER_RUN_CLAIM_H_
#define SPLITVEIL_COMMON_LEDGER_RUN_CLAIM_H_

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "common/leakage/run_standing.h"
#include "common/ledger/claim_check.h"

namespace splitveil {

// Bounds on an AUC from here on are printed as 1.000, and promise nothing.
inline constexpr double kNoPromise = 0.9995;

// The lesser of what Theorem 1 and what Gaussian classes allow on one step's releases (ProtectionRow); NaN where
// neither is stated.
double StepAucBound(double auc_bound, double sum_kl);

// What a run's steps whose gradients left, each by its StepAucBound, may be said to allow: as much as 95% of them
// (nearest rank), those without a bound as 1. NaN for none. The least of them would let one lucky step speak for a run.
double StepAucBoundP95(std::vector<double> of_steps);

struct RunClaim {
  std::string protection;  // As ledgers name it.
  bool released = true;    // A gradient left.
  // Bounds on an AUC: of all releases together, and of single steps (StepAucBoundP95). NaN: none stated, or not
  // recorded.
  double run_auc_bound = std::numeric_limits<double>::quiet_NaN();
  double step_auc_bound_p95 = std::numeric_limits<double>::quiet_NaN();
  bool worst_case_tested = false;            // StandingFacts.
  bool exceeded = false;                     // StandingFacts.
  std::optional<ClaimCheckRow> claim_check;  // nullopt: nothing was held against the claim.

  // Without noise nothing is promised: that the classes of a model's gradients overlap, as those of noisy activations
  // do, hides no label from who looks elsewhere.
  bool adds_noise() const;
  // Of the whole run, or of single steps.
  bool states_bound() const;
  // Of the whole run.
  bool states_run_bound() const;
};

RunStanding StandingOf(const RunClaim& claim);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_LEDGER_RUN_CLAIM_H_
