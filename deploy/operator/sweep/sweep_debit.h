// What a sweep would count in a privacy account that outlives it: nothing there is ever taken off again.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_SWEEP_SWEEP_DEBIT_H_
#define SPLITVEIL_DEPLOY_OPERATOR_SWEEP_SWEEP_DEBIT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "deploy/operator/sweep/sweep_plan.h"

namespace splitveil {

struct SweepDebit {
  std::string words;    // For people, one line without its end. Empty: no run uses such an account.
  bool counts = false;  // Whether there is anything that the account does not have yet.
};

// Of `runs`, which are still to run: those whose account is the configuration's (HasKeptAccount), one file for all.
// Their strengths, held against what the account has of the examples that they train on. Writes nothing. Errors: as
// OpenPreparedData and PrivacyAccount::OpenToRead.
absl::StatusOr<SweepDebit> ForeseeSweepDebit(const std::vector<const SweepRun*>& runs);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_SWEEP_SWEEP_DEBIT_H_
