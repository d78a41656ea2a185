// The last decision before a gradient leaves (architecture rule 4).
#ifndef SPLITVEIL_LABEL_PARTY_POLICY_RELEASE_GATE_H_
#define SPLITVEIL_LABEL_PARTY_POLICY_RELEASE_GATE_H_

#include "splitveil/v1/party.pb.h"

namespace splitveil {

enum class GateAction { kRelease, kWarn, kHalt };

// What is known of a release before it leaves.
struct ReleaseFigures {
  double sum_kl = 0;              // Of the step; NaN where the method has none.
  double accumulated_sum_kl = 0;  // LeakageAccountant::MaxAfter of this release.
  double measured_leak = 0.5;     // Largest 0.5 + |AUC - 0.5| of the attacks on the batch; 0.5 where there is no AUC.
};

struct GateDecision {
  GateAction action = GateAction::kRelease;
  double auc_bound = 1;  // Theorem 1 on the step's sumKL; 1 where the method has no sumKL.
  std::string reason;    // Which limit was passed; empty on release.
};

// Holds three figures against the policy: the bound on any adversary's AUC for this step, the AUC of an adversary that
// remembers every release of an example, and the leak the known attacks measure on the batch itself, which needs no
// assumption on the gradients. A method without a sumKL has no bound below 1, so a policy that asks for one treats it
// as exceeding. Thread-safe.
class ReleaseGate {
 public:
  explicit ReleaseGate(const v1::ReleasePolicy& policy) : policy_(policy) {}

  GateDecision Decide(const ReleaseFigures& figures) const;
  // Whether the measured leak can make a difference; measuring costs a pass over the batch before it leaves.
  bool WantsMeasuredLeak() const { return policy_.max_measured_leak() < 1; }

 private:
  v1::ReleasePolicy policy_;
};

// "release", "warn" or "halt", as the ledger says it.
const char* GateActionName(GateAction action);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_POLICY_RELEASE_GATE_H_
