// What a run came to: the one model that every table, page and file lays out.
#ifndef SPLITVEIL_COMMON_FIGURES_RUN_FIGURES_H_
#define SPLITVEIL_COMMON_FIGURES_RUN_FIGURES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

#include "common/leakage/summary.h"
#include "common/ledger/ledger_rows.h"

#include "splitveil/v1/protection.pb.h"

namespace splitveil {

// A bound on an AUC from here on is printed as 1.000, and promises nothing.
inline constexpr double kNoPromise = 0.9995;

// Whether `bound` exists and is below kNoPromise.
bool Promises(const std::optional<double>& bound);

// Whether the bound of a run with `protection`, as ledgers name it, holds for any adversary, model and data: noise or
// flips on the labels alone, and all that is sent made of those. Every other bound assumes that the gradients of each
// class are Gaussian.
bool IsBoundProved(absl::string_view protection);

// The lesser of what Theorem 1 and what Gaussian classes allow on one step's releases (ProtectionRow); NaN if neither
// is stated.
double StepAucBound(double auc_bound, double sum_kl);

// What the released steps of a run, each by its StepAucBound, may be said to allow: as much as 95% of them (nearest
// rank), those without a bound as 1. nullopt for no step. The least of them would let one lucky step speak for a run.
std::optional<double> StepAucBoundP95(std::vector<RepeatedValue> of_steps);

// What was measured of one attack at one layer.
struct AucInterval {
  double auc = 0;
  double low = auc, high = auc;  // The same: not known.

  bool known() const { return low < high; }
};

struct AttackFigure {
  std::string layer, attack;
  std::string observer = {};  // Who scored it; empty if only one party did.
  LeakSummary batches = {};   // No steps: no batch was scored.
  // Over all examples of the last epoch; of a cumulative attack, over all epochs so far. Its AUC is finite.
  std::optional<EpochLeakRow> last_epoch = std::nullopt;

  // The figure that attacks are ordered and runs are ranked by: the largest AUC that the attack reaches, in one batch
  // of twenty (p95) or over all examples of the last epoch. Of a cumulative attack the latter if it is known: a bound
  // for the run is about that, and a p95 would mix epochs of little and of much evidence. Inverted; 0 if nothing was
  // measured.
  double auc() const;
  // Over the last epoch, else the mean over the batches; inverted, 0 if nothing was measured. Orders attacks of the
  // same auc().
  double typical_auc() const;
  // The AUC over all examples of the last epoch, inverted, with its interval at 95%; else auc() without one. Single
  // batches scatter: p95 over batches with 29 positives is no figure to put before a reader.
  AucInterval pooled() const;
  bool has_batches() const { return batches.steps > 0; }
  // True positive rates over the last epoch, at false positive rates of 1% and 0.1%.
  std::optional<double> tpr_1pct() const;
  std::optional<double> tpr_01pct() const;
};

// Attacks on gradients first, then those that read none, then those that use given labels; among each the stronger
// first, whatever the layer; of equally strong ones the one that needs least, then the cut layer, then by name.
bool IsStronger(const AttackFigure& a, const AttackFigure& b);

// What the attacks reached on the batches, and over the last epoch, by layer and attack.
using LeakSeriesByAttack = std::map<std::pair<std::string, std::string>, StepSeries>;
using EpochLeakByAttack = std::map<std::pair<std::string, std::string>, EpochLeakRow>;

// One figure for each attack of either, strongest first. Rows whose AUC is not finite count for nothing.
std::vector<AttackFigure> StrongestFirst(const LeakSeriesByAttack& series, const EpochLeakByAttack& last_epoch = {});

// The worst case among `rows`, which the label party scored at the cut: of
// cumulative_conditional_likelihood_ratio, which reads all epochs together, or else of conditional_likelihood_ratio.
std::optional<AttackFigure> WorstCaseOf(const std::vector<EpochLeakRow>& rows);

// What became of a run's bound.
enum class BoundState {
  kNotInLedger,      // The label party's ledger, which alone states bounds, was not given.
  kNothingReleased,  // No gradient was released: there is nothing to bound.
  kNoneStated,       // The protection promises nothing, or no more than that an AUC is at most 1.
  kNotTested,        // A bound is stated, and no attack was held against it.
  kNotExceeded,      // By the attacks that were run. Nothing shows that it holds.
  kExceeded,
};

// What a run promises, and whether it keeps that.
enum class PrivacyVerdict {
  kNotKnown,         // The label party's ledger, which would say it, was not given.
  kNothingReleased,  // No gradient was released.
  kNothingClaimed,   // The protection states no bound.
  kUntested,         // A bound that is not proved, and the worst case was not measured.
  kHolds,            // A bound that is not proved, and the worst case measured does not exceed it. No more than that.
  kUnchecked,        // A proved bound, and too little was measured to see whether the programs keep it.
  kGuaranteed,       // A proved bound that enough was held against, and nothing contradicts: the programs keep it.
  kBroken,           // More was read than the bound allows, or the run's own scores refute the mu that it claims.
};

// An attack that measurably reads more than the noise allows, all its epochs together.
struct BoundExcess {
  std::string layer, attack;
  // Of the epoch in which it exceeds the bound the most; nullopt if only an event tells of it.
  std::optional<double> auc_at_least = {}, auc_bound = {};
  std::vector<int64_t> epochs = {};  // From 1, ascending.
  int64_t worst_epoch = 0;           // From 1: that epoch. 0: not known.
};

// Quality of the model on one part of the data. A task has some of these figures.
struct ModelFigures {
  std::optional<double> log_loss, auc, accuracy, calibration_error;  // Of several classes `auc` is the macro AUC.
  std::optional<double> rmse, r_squared;                             // Of a regression.

  bool is_regression() const { return rmse.has_value() || r_squared.has_value(); }
  // What runs and epochs are compared by: R^2 of a regression, else the AUC.
  std::optional<double> quality() const { return is_regression() ? r_squared : auc; }
  // RMSE of a regression, else the log loss.
  std::optional<double> loss() const { return is_regression() ? rmse : log_loss; }
};

// A figure that its source does not know is nullopt, zero or empty.
struct RunFigures {
  std::string run_id, protection, resumed_from;
  std::string ended;            // "completed", "stopped", "halted" or "failed".
  bool of_label_party = false;  // Whether the label party's own records, which alone state bounds, are in it.
  bool only_predicts = false;
  bool may_have_released = true;  // Gradients (ReleasedGradients), or labels (audit.auxiliary_labels).
  // Quality on the test part of a model of the label party's own features alone; nullopt: it has none.
  std::optional<double> own_features;
  int64_t aligned_examples = 0;
  int64_t agreed_epochs = 0, epochs = 0;       // `epochs`: trained whole.
  int64_t steps = 0, examples = 0;             // Trained.
  std::optional<double> seconds;               // In training steps.
  int64_t bytes_sent = 0, bytes_received = 0;  // In training steps.

  // The model: of the epoch that is kept, of the last one, and of the kept one on the validation part.
  ModelFigures test, final_test, validation;
  std::optional<double> train_log_loss;
  int64_t best_epoch = 0;  // The one that is kept, from 1; 0: before the first.
  bool evaluated = false;
  std::string kept_by;  // What chose it: "validation", "test" (the part itself), or "last"; empty: not evaluated.
  bool several_classes = false;

  // What was released. Steps by decision of the gate; those after the bottom model was frozen: FREEZE_BOTTOM.
  std::map<v1::GateAction, int64_t> gate;
  std::optional<int64_t> frozen_after_epoch;
  // Of the released steps: mean divergence, and bounds that 95% of them keep, by Theorem 1 and by StepAucBound.
  std::optional<double> sum_kl_mean, auc_bound_p95, step_auc_bound_p95;
  // What all releases of the run together allow, and those of all runs up to it.
  std::optional<double> run_auc_bound, all_runs_auc_bound;

  // What all releases of an example's activations allow, in the run and in all runs up to it, by the non-label party.
  std::optional<double> activation_auc_bound, all_activation_auc_bound;

  // What attacks reached, strongest first (IsStronger). If two observers scored one, the weaker figures come last.
  std::vector<AttackFigure> attacks;
  std::optional<AttackFigure> worst_case;         // WorstCaseOf.
  std::optional<Guessing> guessing;               // Over the run's mean batch.
  bool bound_tested = false;                      // An attack was held against the bound.
  int64_t bound_exceeded = 0;                     // Times an attack exceeded it over an epoch.
  std::vector<BoundExcess> excesses;              // One an attack and layer, the strongest first.
  std::optional<ClaimCheckRow> claim_check;       // nullopt: the run claims no mu.
  std::vector<AttributeLeakRow> attribute_leaks;  // The strongest attack on each attribute. Non-label party only.

  // Attacks that scored batches, each once at a layer: the stronger of two observers' figures.
  std::vector<const AttackFigure*> over_batches() const;
  // Attacks on gradients, without side information and with it (hints, the classes' true moments); null: none was
  // measured. Attacks that use given labels are left out: they say nothing of the gradients' leak by themselves.
  const AttackFigure* practical() const;
  const AttackFigure* with_side_information() const;
  // The stronger of the two, `practical` if they are equal: what runs are ranked by.
  const AttackFigure* strongest() const;
  // Without side information: the one that reaches the most over all examples of the last epoch, else practical().
  const AttackFigure* practical_pooled() const;
  // The strongest that reads no gradient: neither noise nor a bound is about it.
  const AttackFigure* no_gradient() const;
  // What an adversary reads without any gradient, against which attacks on gradients are held: features_only if it ran,
  // else activation_clusters.
  const AttackFigure* baseline() const;

  bool released_nothing() const { return only_predicts || !may_have_released; }
  // A bound below kNoPromise, of the whole run, or of it or single steps. Without noise nothing is promised: that the
  // classes of a model's gradients overlap, as those of noisy activations do, hides no label from another adversary.
  bool states_run_bound() const;
  bool states_bound() const;
  bool is_proved() const;  // The bound, if there is one: IsBoundProved.
  // Of the whole run, if it is proved and stated.
  std::optional<double> proved_auc_bound() const;

  BoundState bound() const;
  PrivacyVerdict verdict() const;
  // What was held against the claim; null if nothing is claimed.
  const ClaimCheckRow* checked_claim() const;
};

// What guessing reaches over batches of `batch` rows, of which a share of `positives` is positive.
std::optional<Guessing> GuessingInBatches(std::optional<double> batch, std::optional<double> positives);

// Adds to `excesses` what an attack's row over an epoch exceeds, if it does; the row counts as the label party's. Keeps
// the strongest first.
void AddExcess(const EpochLeakRow& row, std::vector<BoundExcess>& excesses);

// Whether the attack measurably read more than the noise allows on Gaussian classes (ExceedsGaussianAucBound), on the
// label party's own attacks: scores that the attack module submits may be made of more than gradients.
bool ExceedsBound(const EpochLeakRow& row);
// Whether the row could show that: not of so few examples that a perfect score would be no proof.
bool IsHeldAgainstBound(const EpochLeakRow& row);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_FIGURES_RUN_FIGURES_H_
