// The last decision before a gradient leaves (architecture rule 4).
#ifndef SPLITVEIL_LABEL_PARTY_POLICY_RELEASE_GATE_H_
#define SPLITVEIL_LABEL_PARTY_POLICY_RELEASE_GATE_H_

#include "label_party/protection/gradient_protection.h"

#include "splitveil/v1/party.pb.h"

namespace splitveil {

enum class GateAction { kRelease, kWarn, kHalt };

struct GateDecision {
  GateAction action = GateAction::kRelease;
  double auc_bound = 1;  // Theorem 1 on the step's sumKL; 1 where the method has no sumKL.
};

// Holds the bound on any adversary's AUC for one step against the policy. A method without a sumKL has no bound below
// 1, so a policy that asks for one treats it as exceeding. It bounds a single step: an adversary that remembers adds
// steps up. Thread-safe.
class ReleaseGate {
 public:
  explicit ReleaseGate(const v1::ReleasePolicy& policy) : policy_(policy) {}

  GateDecision Decide(const ProtectionReport& report) const;
  double max_step_auc_bound() const { return policy_.max_step_auc_bound(); }

 private:
  v1::ReleasePolicy policy_;
};

// "release", "warn" or "halt", as the ledger says it.
const char* GateActionName(GateAction action);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_POLICY_RELEASE_GATE_H_
