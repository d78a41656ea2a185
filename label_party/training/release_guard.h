// Protection, release gate and accountant together: what of a batch's gradients may be sent.
#ifndef SPLITVEIL_LABEL_PARTY_TRAINING_RELEASE_GUARD_H_
#define SPLITVEIL_LABEL_PARTY_TRAINING_RELEASE_GUARD_H_

#include <cereal/access.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/checkpoint/release_journal.h"
#include "common/leakage/conditional_likelihood.h"
#include "common/matrix/matrix.h"
#include "label_party/audit/leak_auditor.h"
#include "label_party/policy/release_gate.h"
#include "label_party/protection/gradient_protection.h"

namespace splitveil {

struct GuardedBatch {
  // What the gate decided in the end: RAISE_NOISE where the noise was raised and then passed. `reason` says why, and is
  // empty on RELEASE.
  GateDecision decision;
  NoisePlan plan;            // What was done, and its report of what is released.
  Matrix gradients;          // [batch, cut_width], perturbed; empty if nothing may be sent (FREEZE_BOTTOM, HALT).
  bool sends_clean = false;  // The clean gradients are sent as they are; `gradients` is empty then, too.
};

// What the known attacks make of a batch before it is sent: the largest 0.5 + |AUC - 0.5| of the norm and the cosine
// attack on `gradients` [batch, cut_width], protected but not yet released, of which `clean` is the same before; 0.5
// where the batch has no AUC. Thread-safe.
double MeasuredLeak(ConstMatrixView gradients, ConstMatrixView clean, const ReleasedBatch& batch);

// Plans a batch's noise and holds the plan against the release policy: more noise is another plan with a smaller limit,
// and noise that the gate would not let be sent is never drawn. It is drawn once, unless the leak that is then measured
// asks for more. Not thread-safe.
class ReleaseGuard {
 public:
  // `examples`: aligned examples of the run. `earlier_sum_kl`: what any of them may have been released at in the runs
  // that this one resumes from; the gate counts it in, and so it does `answers`, of the run.
  ReleaseGuard(std::unique_ptr<GradientProtection> protection, ReleaseGate gate, int64_t examples,
               double earlier_sum_kl, const RoundedAnswers& answers);

  // `clean` [batch, cut_width]: rows of batch.positions. `head`: what made them; read where wants_head(). Asking again
  // gives the same bytes. Errors: those of the protection as configured.
  absl::StatusOr<GuardedBatch> Guard(ConstMatrixView clean, const ReleasedBatch& batch,
                                     const LabelFreeBatch& head = {});
  bool wants_head() const { return protection_->changes_gradients(); }
  // Accounts for the batch once its gradients may be sent, and for the answer to the attack module's scores of it where
  // one is due, which it notes in the batch. Returns the largest divergence of all that is disclosed of one example in
  // this run.
  double Account(const ProtectionReport& report, ReleasedBatch& batch);

  // Whether a batch's gradients are sent as they are, so that the first ones need not wait for the last.
  bool is_passthrough() const { return protection_->is_passthrough() && !gate_.can_block(); }

  // Whether Account will note in `batch` that the attack module's scores of it get an answer.
  bool IsAnswerDue(const ReleasedBatch& batch) const { return AnswerSumKl(batch) > 0; }

  // Limits every release from that batch on, for good; only where CanRaiseNoise. A run that is continued is told all
  // that its journal has, so that a step is repeated under the limit that it had.
  void RaiseNoise(const ReleaseJournal::RaisedNoise& raised) { raised_.push_back(raised); }
  // The least divergence that a release is limited to by all of them; infinite: as configured.
  double max_sum_kl() const;

  // What earlier runs released, once that is known better than when this was made.
  void SetEarlierSumKl(double sum_kl) { earlier_sum_kl_ = sum_kl; }

  // See ReleaseGate::max_run_sum_kl.
  double max_run_sum_kl() const { return gate_.max_run_sum_kl(); }

 private:
  friend class cereal::access;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(accountant_, answers_, answer_accountant_, earlier_sum_kl_);
  }

  // Guard for a method that changes no gradient: only the gate decides.
  absl::StatusOr<GuardedBatch> GuardUnchanged(ConstMatrixView clean, const ReleasedBatch& batch);
  // What the gate knows of `batch` before anything is planned for it.
  ReleaseFigures FiguresOf(const ReleasedBatch& batch) const;
  // The gate's decision on a release with this report, before the leak of the batch is measured.
  GateDecision Decide(const ProtectionReport& report, double worst_case_auc_bound, const ReleasedBatch& batch,
                      ReleaseFigures& figures) const;
  // A batch to be protected, and what is known of it before its labels.
  struct Attempt {
    ConstMatrixView clean;
    const ReleasedBatch& batch;
    const LabelFreeBatch& head;
    BatchFacts facts;
  };
  // One plan, and what the gate says to it: drawn if the plan itself passes. Errors: FailedPrecondition if nothing
  // keeps `max_sum_kl`; those of the protection as configured.
  absl::Status Try(const Attempt& attempt, double max_sum_kl, ReleaseFigures& figures, GuardedBatch& guarded);

  // By what has begun with `batch`, or before it.
  double MaxSumKlOf(const ReleasedBatch& batch) const;
  // Of the answer that is due on `batch`; 0 where none is.
  double AnswerSumKl(const ReleasedBatch& batch) const;
  // The largest sum of what is disclosed of an example of `batch` beside its gradients, this batch's answer included.
  double AnswersOn(const ReleasedBatch& batch) const;

  std::unique_ptr<GradientProtection> protection_;
  ReleaseGate gate_;
  LeakageAccountant accountant_;
  RoundedAnswers answers_;
  LeakageAccountant answer_accountant_;  // Of no examples where none is ever due.
  double earlier_sum_kl_;
  std::vector<ReleaseJournal::RaisedNoise> raised_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_TRAINING_RELEASE_GUARD_H_
