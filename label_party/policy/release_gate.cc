#include "label_party/policy/release_gate.h"

#include "common/leakage/bounds.h"

namespace splitveil {

GateDecision ReleaseGate::Decide(const ProtectionReport& report) const {
  GateDecision decision;
  decision.auc_bound = AucBound(report.sum_kl);
  if (decision.auc_bound > policy_.max_step_auc_bound()) {
    decision.action = policy_.action() == v1::ReleasePolicy::HALT ? GateAction::kHalt : GateAction::kWarn;
  }
  return decision;
}

const char* GateActionName(GateAction action) {
  switch (action) {
    case GateAction::kRelease:
      return "release";
    case GateAction::kWarn:
      return "warn";
    case GateAction::kHalt:
      return "halt";
  }
  return "halt";
}

}  // namespace splitveil
