#include "label_party/training/release_guard.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "common/figures/all_runs.h"
#include "common/leakage/attack_traits.h"
#include "common/leakage/conditional_likelihood.h"
#include "common/leakage/scores.h"
#include "common/leakage/summary.h"
#include "common/privacy/label_privacy.h"
#include "common/status/status_macros.h"

namespace splitveil {

namespace {

// ConditionalAucBound of what would be sent by `plan`.
double WorstCase(const LabelFreeBatch& batch, const NoisePlan& plan) {
  const auto* const noise = std::get_if<GaussianNoise>(&plan.change);
  if (noise == nullptr) {
    return 1;
  }
  ReleasingHead head;
  static_cast<LabelFreeBatch&>(head) = batch;
  head.noise_negative = {plan.report.lambda1_neg, plan.report.lambda2_neg};
  head.noise_positive = {plan.report.lambda1_pos, plan.report.lambda2_pos};
  head.noise_direction = noise->direction;
  return ConditionalAucBound(head);
}

}  // namespace

double MeasuredLeak(ConstMatrixView gradients, ConstMatrixView clean, const ReleasedBatch& batch) {
  const NormAndCosineScores scores = ScoreNormsAndCosines(gradients, batch.CleanPositive(clean));
  double leak = 0.5;
  // The two attacks of Li et al., ICLR 2022, section 3.3, cheap enough to run before every release.
  for (const std::vector<float>* attack : {&scores.norms, &scores.cosines}) {
    if (attack->empty()) {
      continue;
    }
    if (const absl::StatusOr<double> auc = LeakAuc(*attack, batch.labels, RowsLeftOut(v1::COSINE, batch.hint_rows));
        auc.ok()) {
      leak = std::max(leak, 0.5 + std::abs(*auc - 0.5));
    }
  }
  return leak;
}

ReleaseGuard::ReleaseGuard(std::unique_ptr<GradientProtection> protection, ReleaseGate gate, int64_t examples,
                           double earlier_sum_kl, const RoundedAnswers& answers)
    : protection_(std::move(protection)),
      gate_(std::move(gate)),
      accountant_(examples),
      answers_(answers),
      answer_accountant_(answers.any() ? examples : 0),
      earlier_sum_kl_(earlier_sum_kl) {}

double ReleaseGuard::max_sum_kl() const {
  double least = GradientProtection::kAsConfigured;
  for (const ReleaseJournal::RaisedNoise& raised : raised_) {
    least = std::min(least, raised.max_sum_kl);
  }
  return least;
}

double ReleaseGuard::MaxSumKlOf(const ReleasedBatch& batch) const {
  double least = GradientProtection::kAsConfigured;
  // By batch: one that is repeated after a crash gets the limit that it had, not a later one.
  for (const ReleaseJournal::RaisedNoise& raised : raised_) {
    if (std::pair(raised.from.epoch, raised.from.batch) <= std::pair(batch.epoch, batch.batch)) {
      least = std::min(least, raised.max_sum_kl);
    }
  }
  return least;
}

double ReleaseGuard::AnswerSumKl(const ReleasedBatch& batch) const {
  // A batch is due by public facts; lowering the disclosure ends the answers, and with them their cost.
  const bool is_due =
      !batch.is_disclosure_lowered && answers_.IsDue(batch.step, static_cast<int64_t>(batch.labels.size()));
  return is_due ? answers_.sum_kl() : 0;
}

double ReleaseGuard::AnswersOn(const ReleasedBatch& batch) const {
  // Apart from the releases of gradients: an answer discloses a label through a different channel, and both add up.
  return answers_.any() ? answer_accountant_.MaxOf(batch.positions) + AnswerSumKl(batch) : 0;
}

ReleaseFigures ReleaseGuard::FiguresOf(const ReleasedBatch& batch) const {
  ReleaseFigures figures;
  figures.epoch = static_cast<uint32_t>(batch.epoch);
  // Everything that tells of a label adds up: earlier runs, this run's releases, and answers to scores.
  figures.exposed_sum_kl = earlier_sum_kl_ + accountant_.MaxOf(batch.positions) + AnswersOn(batch);
  return figures;
}

namespace {

// All releases of the run together with earlier ones. Flips do not add up as Gaussian noise does: the divergence of
// Gaussian classes with the AUC of both.
double RunSumKlWith(double earlier_sum_kl, const ProtectionReport& report) {
  return report.flip_epsilon > 0 ? SumKlOfGaussianAuc(ComposedAucBound(earlier_sum_kl, {report.flip_epsilon}))
                                 : earlier_sum_kl + report.run_sum_kl;
}

}  // namespace

GateDecision ReleaseGuard::Decide(const ProtectionReport& report, double worst_case_auc_bound,
                                  const ReleasedBatch& batch, ReleaseFigures& figures) const {
  figures.sum_kl = report.sum_kl;
  figures.run_sum_kl = RunSumKlWith(earlier_sum_kl_, report) + AnswersOn(batch);
  figures.worst_case_auc_bound = worst_case_auc_bound;
  figures.measured_leak = 0.5;  // Not known before the draw.
  return gate_.Decide(figures);
}

absl::Status ReleaseGuard::Try(const Attempt& attempt, double max_sum_kl, ReleaseFigures& figures,
                               GuardedBatch& guarded) {
  SPLITVEIL_ASSIGN_OR_RETURN(guarded.plan, protection_->Plan(attempt.facts, max_sum_kl));
  const double worst_case = gate_.WantsWorstCase() ? WorstCase(attempt.head, guarded.plan) : 0.5;
  // First by figures that need no draw.
  guarded.decision = Decide(guarded.plan.report, worst_case, attempt.batch, figures);
  // No noise is drawn for a plan that is refused.
  if (guarded.decision.action > v1::WARN) {
    return absl::OkStatus();
  }
  SPLITVEIL_RETURN_IF_ERROR(protection_->Apply(guarded.plan, {attempt.clean, attempt.batch.labels},
                                               attempt.facts.position, guarded.gradients));
  if (gate_.WantsMeasuredLeak()) {
    // The known attacks, on the very rows that would be sent.
    figures.measured_leak = MeasuredLeak(guarded.gradients, attempt.clean, attempt.batch);
    guarded.decision = gate_.Decide(figures);
  }
  return absl::OkStatus();
}

absl::StatusOr<GuardedBatch> ReleaseGuard::GuardUnchanged(ConstMatrixView clean, const ReleasedBatch& batch) {
  GuardedBatch guarded;
  SPLITVEIL_ASSIGN_OR_RETURN(guarded.plan.report, protection_->Report(static_cast<uint32_t>(batch.epoch)));
  ReleaseFigures figures = FiguresOf(batch);
  // An adversary that knows the model reads every label from rows without noise, so the worst case is certainty.
  guarded.decision = Decide(guarded.plan.report, gate_.WantsWorstCase() ? 1 : 0.5, batch, figures);
  if (guarded.decision.action <= v1::WARN && gate_.WantsMeasuredLeak()) {
    figures.measured_leak = MeasuredLeak(clean, clean, batch);
    guarded.decision = gate_.Decide(figures);
  }
  // A continued run may have raised its noise under a different method; this one has none to raise.
  if (!(guarded.plan.report.sum_kl <= MaxSumKlOf(batch)) && MaxSumKlOf(batch) < GradientProtection::kAsConfigured) {
    guarded.decision.action = v1::FREEZE_BOTTOM;
    guarded.decision.reason = "the operator's limit; no noise keeps that";
  }
  guarded.sends_clean = guarded.decision.action <= v1::WARN;
  return guarded;
}

absl::StatusOr<GuardedBatch> ReleaseGuard::Guard(ConstMatrixView clean, const ReleasedBatch& batch,
                                                 const LabelFreeBatch& head) {
  if (!protection_->changes_gradients()) {
    return GuardUnchanged(clean, batch);
  }
  // From v and p: nothing of the clean gradients is known to what plans the noise.
  SPLITVEIL_ASSIGN_OR_RETURN(BatchFacts facts, protection_->Describe(head, {batch.epoch, batch.batch, 0}));
  const Attempt attempt{clean, batch, head, std::move(facts)};
  GuardedBatch guarded;
  ReleaseFigures figures = FiguresOf(batch);
  double max_sum_kl = MaxSumKlOf(batch);
  std::string raised_for = "the operator's limit";
  for (;; ++figures.times_raised) {
    const absl::Status status = Try(attempt, max_sum_kl, figures, guarded);
    // No noise that a float can hold keeps the limit: nothing is sent, and the top model goes on learning.
    if (max_sum_kl < GradientProtection::kAsConfigured && absl::IsFailedPrecondition(status)) {
      guarded.decision.action = v1::FREEZE_BOTTOM;
      guarded.decision.reason = absl::StrCat(raised_for, "; no noise keeps that");
      break;
    }
    SPLITVEIL_RETURN_IF_ERROR(status);
    if (guarded.decision.action != v1::RAISE_NOISE) {
      break;
    }
    // Never up again: each round asks for at least as much noise as the one before.
    max_sum_kl = std::min(max_sum_kl, guarded.decision.max_sum_kl);
    raised_for = guarded.decision.reason;
  }
  // The last round passed, but only with raised noise: that is what the ledger has to say.
  if (figures.times_raised > 0 && guarded.decision.action < v1::RAISE_NOISE) {
    guarded.decision.action = v1::RAISE_NOISE;
    guarded.decision.reason = raised_for;
  }
  // Nothing that must not be sent is handed on.
  if (guarded.decision.action >= v1::FREEZE_BOTTOM) {
    guarded.gradients = Matrix();
  }
  return guarded;
}

double ReleaseGuard::Account(const ProtectionReport& report, ReleasedBatch& batch) {
  // A method with a bound of the whole run is counted once, however many steps there are.
  const double gradients = std::isnan(report.run_sum_kl) ? accountant_.Release(batch.positions, report.sum_kl)
                                                         : accountant_.ReleaseOfRun(batch.positions, report.run_sum_kl);
  const double answer = AnswerSumKl(batch);
  // Counted with the gradients of its batch, before either is sent.
  if (answer > 0) {
    batch.is_answered = true;
    answers_.Spend();
    answer_accountant_.Release(batch.positions, answer);
  }
  return gradients + answer_accountant_.max_sum_kl();
}

}  // namespace splitveil
