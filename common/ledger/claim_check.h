// What a run claims of label privacy and what it refutes of that itself, as ledgers keep it.
#ifndef SPLITVEIL_COMMON_LEDGER_CLAIM_CHECK_H_
#define SPLITVEIL_COMMON_LEDGER_CLAIM_CHECK_H_

#include <cstdint>
#include <string>

namespace splitveil {

// What the scores of the label party's own attacks refute of the mu that the run claims
// (label_party/audit/claim_checker.h).
struct ClaimCheckRow {
  // mu of all releases of an example, and epsilon at `delta`.
  double claimed_mu = 0, claimed_epsilon = 0;
  // Anything smaller would have given these scores with probability 1 - confidence at most.
  double mu_lower = 0, epsilon_lower = 0;
  double delta = 0, confidence = 0;
  std::string test;                     // Which decided: own, neighbour, difference.
  int64_t examples = 0, positives = 0;  // Of that test; half of them chose its threshold.
  double true_positive_rate_low = 0, false_positive_rate_high = 0;
  // mu_lower at failing_confidence, which is much nearer to 1: what a run is failed by. Noise that an account keeps is
  // the same in every further run, and so is a false alarm.
  double failing_mu_lower = 0, failing_confidence = 0;
  // About the failing_mu_lower that these scores would have shown of a run with half of the noise.
  double half_noise_mu_lower = 0;

  // The run does not keep what it claims.
  bool is_refuted() const { return failing_mu_lower > claimed_mu; }
  // Half of the noise would have refuted the claim: there are enough scores for it to mean something that it stands.
  bool is_conclusive() const { return half_noise_mu_lower > claimed_mu; }
};

// What a privacy account says, before anything leaves, of all runs up to this one on its examples. Later ones may add.
struct AllRunsRow {
  std::string account;   // Its id.
  int64_t examples = 0;  // Counted for this run.
  // Bound on the AUC of an adversary that keeps every release of the most exposed of them, this run's included.
  double auc_bound = 1;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_LEDGER_CLAIM_CHECK_H_
