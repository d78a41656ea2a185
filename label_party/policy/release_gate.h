// The last decision before a gradient is sent (architecture rule 4); what releases add up to (rule 6); whether a run
// can keep its policy to the end, as far as that is known before it; and what the attack module may read of AUCs (rule
// 5).
#ifndef SPLITVEIL_LABEL_PARTY_POLICY_RELEASE_GATE_H_
#define SPLITVEIL_LABEL_PARTY_POLICY_RELEASE_GATE_H_

#include <cereal/access.hpp>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "splitveil/v1/agreement.pb.h"
#include "splitveil/v1/party.pb.h"

namespace splitveil {

// What is known of a batch as it would be sent.
struct ReleaseFigures {
  double sum_kl = 0;           // Of this release; NaN if none is known.
  double exposed_sum_kl = 0;   // Largest sum over the earlier releases of an example of this batch.
  double measured_leak = 0.5;  // Largest 0.5 + |AUC - 0.5| of the attacks on the batch; 0.5 if there is no AUC.
  int times_raised = 0;        // How often the noise of this batch has been raised.
  double run_sum_kl = std::numeric_limits<double>::quiet_NaN();  // ProtectionReport::run_sum_kl.
  uint32_t epoch = 0;                                            // From 0.
  double worst_case_auc_bound = 0.5;                             // ConditionalAucBound of the plan.
};

struct GateDecision {
  v1::GateAction action = v1::RELEASE;
  double auc_bound = 1;  // Theorem 1 on the step's sumKL; 1 if the method has no sumKL.
  std::string reason;    // Which limit was passed; empty on release.
  // RAISE_NOISE: the divergence that the batch is to have at most; positive and finite.
  double max_sum_kl = std::numeric_limits<double>::infinity();
};

// Checks a release against the policy: the bound on any adversary's AUC for this step, the AUC of an adversary that
// accumulates every release of an example, the leak the known attacks measure on the batch itself, and the bound on an
// adversary that knows all but one label; the last two need no assumption on the gradients. If the protection has a
// run budget, that is one more limit, with an action of its own; if it releases in the first epochs only, the bottom
// model is frozen after them. A release without a known sumKL has no bound below 1, so a policy that asks for one
// treats it as exceeding.
//
// Raising noise: for the step's bound, to where it is met; for a run's limit, to half of what the batch's most exposed
// example was released, so that the limit is never reached before what is left is lost in the rounding of sums, after
// some 20 such releases (LeakageAccountant); for the measured leak and the worst case, to half the divergence. With the
// measured leak the level depends on the draw, which the divergence does not tell; it is that of the level itself. If
// that is not above zero, or the batch has been raised kMaxRaises times, the bottom model is frozen. Thread-safe.
class ReleaseGate {
 public:
  static constexpr int kMaxRaises = 16;

  // Errors: InvalidArgument, with field, expected and found, for an action that is none (RELEASE), for RAISE_NOISE
  // with a method that cannot raise its noise, and for a run budget that cannot be planned (PlanRunBudget).
  static absl::StatusOr<ReleaseGate> Create(const v1::ReleasePolicy& policy, const v1::GradientProtection& protection);

  GateDecision Decide(const ReleaseFigures& figures) const;
  // The divergence of all releases of an example together that the least of the run's limits allows; infinite: it has
  // none.
  double max_run_sum_kl() const;
  // Whether passing one of the run's limits does more than warn.
  bool enforces_run_limit() const;
  // Whether a decision can keep a batch from being sent as it is.
  bool can_block() const;
  // Whether the measured leak can make a difference; measuring costs a pass over the batch before it is sent.
  bool WantsMeasuredLeak() const { return max_measured_leak_ < 1; }
  // Whether the worst case can make a difference; computing it costs a pass through the top model.
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

// Adds the symmetrised KL divergences of the releases of each example. The noise of different releases is independent,
// so the divergence of their joint distribution is the sum; Theorem 1 (AucBound) and the Gaussian AUC hold on it. That
// the classes are Gaussian with the solved moments is the model's assumption, not a fact about the data. A release
// without a known divergence (NaN, infinite) makes the sum of its examples infinite. 4 bytes an example: each release
// rounds its sum up to a float, by at most kSumRounding of it (marvell_planner.h), so that it is never too small. Not
// thread-safe.
class LeakageAccountant {
 public:
  // `examples`: aligned examples of the run.
  explicit LeakageAccountant(int64_t examples) : sum_kls_(static_cast<size_t>(examples), 0) {}

  // The largest sum over the releases of one of the examples at `positions`: the most exposed one's.
  double MaxOf(absl::Span<const uint32_t> positions) const;
  // Accounts for one more release of them at `sum_kl`. Returns max_sum_kl().
  double Release(absl::Span<const uint32_t> positions, double sum_kl);
  // Accounts for a release of them by a method whose releases, however many, have `run_sum_kl` together: it stands for
  // all of them and counts once. Returns max_sum_kl().
  double ReleaseOfRun(absl::Span<const uint32_t> positions, double run_sum_kl);

  // The largest sum over all examples so far.
  double max_sum_kl() const { return max_sum_kl_; }

 private:
  friend class cereal::access;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(sum_kls_, max_sum_kl_);
  }

  std::vector<float> sum_kls_;  // By aligned position.
  double max_sum_kl_ = 0;
};

struct PolicyOutlook {
  v1::GateAction action = v1::RELEASE;  // The most severe that the gate will take.
  int32_t first_epoch = 0;              // In which it first does, from 1; 0: in none.
  bool known = true;                    // Whether the divergence of a release follows from the configuration.
  std::string text;                     // For people, one line.
};

// Puts the releases that the protection plans, one of each example in every epoch, through the release gate itself
// (release_gate.h). What depends on gradients (the divergence of `iso` and of a power `s`, the measured leak, the worst
// case) is not known before the run. `label_dp_sum_kl`: mu^2 of each epoch's draw of gaussian_label_dp, or of the noise
// that label_dp's flips are made of where an account counts them; empty for other methods. `protection`: with planned
// epochs filled in (FillPlannedEpochs). Errors: see ReleaseGate::Create. Thread-safe.
absl::StatusOr<PolicyOutlook> ForeseePolicy(const v1::ReleasePolicy& policy, const v1::GradientProtection& protection,
                                            int32_t epochs, const std::vector<double>& label_dp_sum_kl);

// What the attack module reads of a leak AUC as it is. ORACLE: all of it, if there is one. Every other disclosure,
// an unknown one among them: nothing; what ROUNDED gives is made of other numbers (RoundedAnswer).
std::optional<double> DisclosedAuc(v1::DisclosureLevel disclosure, std::optional<double> auc);

// With n examples, n1 of them positive, ties counted half, AUC = 1/2 + W / (2 n1 (n - n1)), where W is the sum over the
// positives of R_i = #{s_j < s_i} - #{s_j > s_i}. One label more or less moves W by at most n - 1, whatever the scores,
// and n1 by 1. An answer is made of W and n1 with discrete Gaussian noise (Canonne, Kamath, Steinke, NeurIPS 2020), of
// which 4/5 and 1/5 of mu^2 are: mu-GDP in each label, and so is all that is made of them, the AUC and its rounding.
//
// Why not the AUC itself, rounded: scores are the peer's to choose, so an AUC is an equation in the labels (Whitehill,
// AAAI 2016). With one score of 1 and all others 0, it is 1/2 + 1/(2 n1) or 1/2 - 1/(2 (n - n1)), which rounding
// to 0.01 keeps apart in a batch with few positives. If the peer knows the others' labels, scores can be found in any
// batch for which one label decides on which side of a rounding boundary the AUC lies.
//
// Not thread-safe.
class RoundedAnswers {
 public:
  // `audit`: of a canonical agreement. No answer is ever due unless its disclosure is ROUNDED.
  explicit RoundedAnswers(const v1::AuditAgreement& audit) : audit_(audit) {}

  // Whether the scores of a batch that is about to be released get an answer. By public facts alone: the step, the
  // batch's examples, how many were answered before.
  bool IsDue(int64_t step, int64_t examples) const;
  // Counts one. A batch whose scores never come counts, too.
  void Spend() { ++spent_; }
  uint32_t spent() const { return spent_; }
  // Symmetrised divergence of an answer in each label of its batch: mu^2.
  double sum_kl() const { return audit_.rounded().mu() * audit_.rounded().mu(); }
  bool any() const { return audit_.disclosure() == v1::ROUNDED; }

 private:
  friend class cereal::access;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(spent_);
  }

  const v1::AuditAgreement audit_;
  uint32_t spent_ = 0;  // In the whole run, also before it was interrupted.
};

// An answer on `scores` (finite) of a batch's `labels`, 0 or 1 and as many, at least two: in [0, 1], a multiple of
// 0.01. New noise is drawn each time: asked twice, it discloses twice. Batches of one class are answered like all
// others.
double RoundedAnswer(const v1::RoundedAnswers& config, absl::Span<const float> scores,
                     absl::Span<const uint8_t> labels);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_POLICY_RELEASE_GATE_H_
