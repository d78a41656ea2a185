// The last decision before a gradient leaves (architecture rule 4).
#ifndef SPLITVEIL_LABEL_PARTY_POLICY_RELEASE_GATE_H_
#define SPLITVEIL_LABEL_PARTY_POLICY_RELEASE_GATE_H_

#include "label_party/protection/gradient_protection.h"

#include "splitveil/v1/party.pb.h"

namespace splitveil {

enum class GateAction { kRelease, kWarn, kHalt };

struct GateDecision {
  GateAction action = GateAction::kRelease;
  double auc_bound = 1;       // Theorem 1 on the step's sumKL; 1 where the method has no sumKL.
  double remembered_auc = 1;  // Gaussian AUC on the sum of the divergences, this release included.
  std::string reason;         // Which limit was passed; empty on release.
};

// Holds two figures against the policy: the bound on any adversary's AUC for this step, and the AUC of an adversary
// that remembers every release of an example. A method without a sumKL has no bound below 1, so a policy that asks for
// one treats it as exceeding. Thread-safe.
class ReleaseGate {
 public:
  explicit ReleaseGate(const v1::ReleasePolicy& policy) : policy_(policy) {}

  // `accumulated_sum_kl`: LeakageAccountant::MaxAfter of this release.
  GateDecision Decide(const ProtectionReport& report, double accumulated_sum_kl) const;

 private:
  v1::ReleasePolicy policy_;
};

// "release", "warn" or "halt", as the ledger says it.
const char* GateActionName(GateAction action);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_POLICY_RELEASE_GATE_H_
