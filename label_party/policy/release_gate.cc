#include "label_party/policy/release_gate.h"

#include "absl/strings/str_format.h"

#include "common/leakage/bounds.h"

namespace splitveil {

GateDecision ReleaseGate::Decide(const ProtectionReport& report, double accumulated_sum_kl) const {
  GateDecision decision;
  decision.auc_bound = AucBound(report.sum_kl);
  decision.remembered_auc = GaussianAuc(accumulated_sum_kl);
  if (decision.auc_bound > policy_.max_step_auc_bound()) {
    decision.reason = absl::StrFormat("bound on the AUC of one step %.4f, released up to %.4f", decision.auc_bound,
                                      policy_.max_step_auc_bound());
  } else if (decision.remembered_auc > policy_.max_run_auc()) {
    decision.reason = absl::StrFormat("AUC of an adversary that remembers %.4f, released up to %.4f",
                                      decision.remembered_auc, policy_.max_run_auc());
  }
  if (!decision.reason.empty()) {
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
