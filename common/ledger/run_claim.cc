#include "common/ledger/run_claim.h"

#include <cmath>

#include "common/leakage/bound_basis.h"
#include "common/leakage/bounds.h"

namespace splitveil {

double StepAucBound(double auc_bound, double sum_kl) {
  return std::isnan(sum_kl) ? auc_bound : std::fmin(auc_bound, GaussianAucBound(sum_kl));
}

bool RunClaim::adds_noise() const { return protection != "none"; }

bool RunClaim::states_run_bound() const { return adds_noise() && run_auc_bound < kNoPromise; }

bool RunClaim::states_bound() const {
  return states_run_bound() || (adds_noise() && least_step_auc_bound < kNoPromise);
}

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
