#include "common/ledger/run_claim.h"

#include <cmath>
#include <limits>
#include <utility>

#include "common/leakage/bound_basis.h"
#include "common/leakage/bounds.h"
#include "common/leakage/summary.h"

namespace splitveil {

double StepAucBound(double auc_bound, double sum_kl) {
  return std::isnan(sum_kl) ? auc_bound : std::fmin(auc_bound, GaussianAucBound(sum_kl));
}

double StepAucBoundP95(std::vector<double> of_steps) {
  if (of_steps.empty()) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  for (double& bound : of_steps) {
    bound = std::isnan(bound) ? 1 : bound;
  }
  return NearestRankQuantile(std::move(of_steps), 0.95);
}

bool RunClaim::adds_noise() const { return protection != "none"; }

bool RunClaim::states_run_bound() const { return adds_noise() && run_auc_bound < kNoPromise; }

bool RunClaim::states_bound() const { return states_run_bound() || (adds_noise() && step_auc_bound_p95 < kNoPromise); }

RunStanding StandingOf(const RunClaim& claim) {
  StandingFacts facts;
  facts.released = claim.released;
  facts.claims_bound = claim.states_bound();
  facts.proved = IsBoundProved(claim.protection);
  facts.claim_checked = claim.claim_check.has_value() && claim.claim_check->is_conclusive();
  facts.claim_refuted = claim.claim_check.has_value() && claim.claim_check->is_refuted();
  facts.worst_case_tested = claim.worst_case_tested;
  facts.exceeded = claim.exceeded;
  return StandingOf(facts);
}

}  // namespace splitveil
