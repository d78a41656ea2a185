#include "label_party/policy/release_gate.h"

#include "absl/strings/str_format.h"

#include "common/leakage/bounds.h"

namespace splitveil {

GateDecision ReleaseGate::Decide(const ReleaseFigures& figures) const {
  GateDecision decision;
  decision.auc_bound = AucBound(figures.sum_kl);
  const auto exceeds = [&](const char* what, double found, double limit) {
    if (decision.reason.empty() && found > limit) {
      decision.reason = absl::StrFormat("%s %.4f, released up to %.4f", what, found, limit);
    }
  };
  exceeds("bound on the AUC of one step", decision.auc_bound, policy_.max_step_auc_bound());
  exceeds("AUC of an adversary that remembers", GaussianAuc(figures.accumulated_sum_kl), policy_.max_run_auc());
  exceeds("leak measured on the batch", figures.measured_leak, policy_.max_measured_leak());
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
