// The last decision before a gradient leaves (architecture rule 4).
#ifndef SPLITVEIL_LABEL_PARTY_POLICY_RELEASE_GATE_H_
#define SPLITVEIL_LABEL_PARTY_POLICY_RELEASE_GATE_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "splitveil/v1/party.pb.h"

namespace splitveil {

// What is known of a batch as it would leave.
struct ReleaseFigures {
  double sum_kl = 0;           // Of this release; NaN where none is known.
  double exposed_sum_kl = 0;   // Largest sum over the earlier releases of an example of this batch.
  double measured_leak = 0.5;  // Largest 0.5 + |AUC - 0.5| of the attacks on the batch; 0.5 where there is no AUC.
  int times_raised = 0;        // How often the noise of this batch has been raised.
  double run_sum_kl = std::numeric_limits<double>::quiet_NaN();  // ProtectionReport::run_sum_kl.
  uint32_t epoch = 0;                                            // From 0.
  double worst_case_auc_bound = 0.5;                             // ConditionalAucBound of the plan.
};

struct GateDecision {
  v1::GateAction action = v1::RELEASE;
  double auc_bound = 1;  // Theorem 1 on the step's sumKL; 1 where the method has no sumKL.
  std::string reason;    // Which limit was passed; empty on release.
  // RAISE_NOISE: the divergence that the batch is to have at most; positive and finite.
  double max_sum_kl = std::numeric_limits<double>::infinity();
};

// Holds a release against the policy: the bound on any adversary's AUC for this step, the AUC of an adversary that
// accumulates every release of an example, the leak the known attacks measure on the batch itself, and the bound on an
// adversary that knows all but one label; the last two need no assumption on the gradients. Where the protection has a
// run budget, that is one more limit, with an action of its own; where it releases in the first epochs only, the bottom
// model is frozen after them. A release without a known sumKL has no bound below 1, so a policy that asks for one
// treats it as exceeding.
//
// Raising noise: for the step's bound, to where it is met; for a run's limit, to half of what the batch's most exposed
// example has left, so that the limit is never reached; for the measured leak and the worst case, to half the
// divergence. With the measured leak the level depends on the draw, which the divergence does not tell; it is that of
// the level itself. Where that is not above zero, or the batch has been raised kMaxRaises times, the bottom model is
// frozen. Thread-safe.
class ReleaseGate {
 public:
  static constexpr int kMaxRaises = 16;

  // Errors: InvalidArgument, with field, expected and found, for an action that is none (RELEASE), for RAISE_NOISE
  // with a method that cannot raise its noise, and for a run budget that cannot be planned (run_budget.h).
  static absl::StatusOr<ReleaseGate> Create(const v1::ReleasePolicy& policy, const v1::GradientProtection& protection);

  GateDecision Decide(const ReleaseFigures& figures) const;
  // The divergence of all releases of an example together that the least of the run's limits allows; infinite: it has
  // none.
  double max_run_sum_kl() const;
  // Whether passing one of the run's limits does more than warn.
  bool enforces_run_limit() const;
  // Whether a decision can keep a batch from leaving as it is.
  bool can_block() const;
  // Whether the measured leak can make a difference; measuring costs a pass over the batch before it leaves.
  bool WantsMeasuredLeak() const { return max_measured_leak_ < 1; }
  // The same of the worst case, which costs a pass through the top model.
  bool WantsWorstCase() const { return max_worst_case_auc_bound_ < 1; }

 private:
  // An example's releases together: the AUC that may come of them, and the divergence at which it does.
  struct RunLimit {
    double auc = 1;
    double sum_kl = std::numeric_limits<double>::infinity();
    v1::GateAction action = v1::WARN;
  };

  ReleaseGate() = default;

  v1::GateAction action_ = v1::WARN;
  double max_step_auc_bound_ = 1;
  double max_measured_leak_ = 1;
  double max_worst_case_auc_bound_ = 1;
  std::optional<uint32_t> released_epochs_;
  std::vector<RunLimit> run_limits_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_POLICY_RELEASE_GATE_H_
