// The rows of a ledger, table by table. Their columns: common/ledger/README.md. `serialize` visits a row's fields in
// the order of its table's columns after run_id: how rows are written, read and kept in checkpoints.
#ifndef SPLITVEIL_COMMON_LEDGER_LEDGER_ROWS_H_
#define SPLITVEIL_COMMON_LEDGER_LEDGER_ROWS_H_

#include <array>
#include <cstdint>
#include <limits>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "splitveil/v1/protection.pb.h"

namespace splitveil {

// What the scores of the label party's own attacks refute of the mu that the run claims
// (label_party/audit/claim_checker.h).
struct ClaimCheckRow {
  // mu of all releases of an example, and epsilon at `delta`.
  double claimed_mu = 0, claimed_epsilon = 0;
  // Anything smaller would have given these scores with probability 1 - confidence at most.
  double mu_lower = 0, epsilon_lower = 0;
  double delta = 0, confidence = 0;
  std::string test;                     // Which decided: own, neighbour, difference, noise.
  int64_t examples = 0, positives = 0;  // Of that test; half of them chose its threshold.
  double true_positive_rate_low = 0, false_positive_rate_high = 0;
  // mu_lower at failing_confidence, which is much nearer to 1: what a run is failed by. Noise that an account keeps is
  // the same in every further run, and so is a false alarm.
  double failing_mu_lower = 0, failing_confidence = 0;
  // About the failing_mu_lower that these scores would have shown of a run with half of the noise.
  double half_noise_mu_lower = 0;

  // The run does not keep what it claims.
  bool is_refuted() const { return failing_mu_lower > claimed_mu; }
  // Half of the noise would have refuted the claim: there are enough scores for it to mean something that it stands.
  bool is_conclusive() const { return half_noise_mu_lower > claimed_mu; }

  static constexpr char kTable[] = "claim_check";
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(claimed_mu, claimed_epsilon, mu_lower, epsilon_lower, delta, confidence, test, examples, positives,
            true_positive_rate_low, false_positive_rate_high, failing_mu_lower, failing_confidence,
            half_noise_mu_lower);
  }
};

// What a privacy account says, before anything is released, of all runs up to this one on its examples. Later ones may
// add.
struct AllRunsRow {
  std::string account;   // Its id.
  int64_t examples = 0;  // Counted for this run.
  // Bound on the AUC of an adversary that keeps every release of the most exposed of them, this run's included.
  double auc_bound = 1;
  int64_t table_rows = 0;  // Of the party's prepared table; 0: not known.

  static constexpr char kTable[] = "all_runs";
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(account, examples, auc_bound, table_rows);
  }
};

// The run itself, one row: who it is, what it trains on, which account counts it.
struct RunRow {
  std::string run_id, role, agreement_sha256, protection, config_json;
  std::string resumed_from = "";  // Run id of the checkpoint this run started from; empty: fresh weights.
  // Whose labels it is about. The label party's alone; empty if this party does not know.
  std::string data_sha256 = "";              // Of the party's prepared table, hexadecimal.
  std::string label_set = "", account = "";  // Of the privacy account, and its id; empty: none counts the run.
  double max_lifetime_auc_bound = 1;         // The account's limit.
};
// Noise that a run draws for labels, by which the releases of several runs on the same labels add up. Label party only.
struct LabelReleaseRow {
  std::string noise;  // gaussian, flip.
  // Of Gaussian noise, in units of the grid; of flips that of the noise as which an account counts them, 0 without one.
  int64_t sigma_units = 0;
  int64_t draws = 0;    // The first ones of this strength.
  double strength = 0;  // Of one draw: mu, or epsilon of flips.

  static constexpr char kTable[] = "label_release";
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(noise, sigma_units, draws, strength);
  }
};
// What audits judge of the steps that PartyCommon.ledger_retained_steps has removed, method by method and decision by
// decision.
struct StepSummaryRow {
  std::string method;  // Empty: this party recorded no protection of these steps.
  v1::GateAction gate = v1::GATE_ACTION_UNSPECIFIED;
  int64_t steps = 0, first_step = 0, last_step = 0;
  int64_t last_epoch = -1, examples = 0;
  // The largest of any of them; NaN if one has none.
  double worst_auc_bound = 0, worst_sum_kl = 0;
  int64_t worst_step = 0;  // That of worst_auc_bound.
  // The least AUC bound, as far as it is known: not in the table.
  double least_auc_bound = 0.5;

  static constexpr char kTable[] = "step_summary";
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(method, gate, steps, first_step, last_step, last_epoch, examples, worst_auc_bound, worst_sum_kl,
            worst_step);
  }
};
// Of the StepRows of an epoch, however many: no table of its own.
struct EpochStepsRow {
  int64_t epoch = 0, steps = 0, first_step = 0, last_step = 0, examples = 0;
  double seconds = 0;
  int64_t bytes_sent = 0, bytes_received = 0;

  static constexpr char kTable[] = "step";
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(epoch, steps, first_step, last_step, examples, seconds, bytes_sent, bytes_received);
  }
};
// The same as StepSummaryRow for the LeakRows with an AUC, each inverted if it is below 0.5.
struct LeakSummaryRow {
  std::string observer, layer, attack;
  int64_t steps = 0;
  double sum = 0, squares = 0;  // Of the AUCs.
  double worst_auc = 0;         // NaN for no steps.
  int64_t worst_step = 0;

  static constexpr char kTable[] = "leak_summary";
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(observer, layer, attack, steps, sum, squares, worst_auc, worst_step);
  }
};
// The same for PrivacyLossRows.
struct PrivacyLossSummaryRow {
  std::string attribute;
  int64_t steps = 0;
  double worst_privacy_loss = 0;  // NaN if one is not known.
  int64_t worst_step = 0;

  static constexpr char kTable[] = "privacy_loss_summary";
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(attribute, steps, worst_privacy_loss, worst_step);
  }
};
// An alignment that begins: each lets the peer try a list of ids against this party's. Of the ledger's file, for some
// belong to no run.
struct AlignmentRow {
  std::string at;                   // As RecordAlignment sets it.
  std::string program = "run";      // run, align.
  int64_t ids = 0;                  // Own ones.
  std::string repeated = "refuse";  // What becomes of rows with the same key: refuse, first, last.
  int64_t left_out = 0;             // Rows for that reason.

  static constexpr char kTable[] = "alignment";
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(at, program, ids, repeated, left_out);
  }
};
// One batch that was trained. Both parties; `step` counts from 0 over the whole run.
struct StepRow {
  int64_t step = 0, epoch = 0, batch = 0, examples = 0;
  double loss = 0, seconds = 0;  // loss NaN: unknown to this party.
  int64_t bytes_sent = 0, bytes_received = 0;

  static constexpr char kTable[] = "step";
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(step, epoch, batch, examples, loss, seconds, bytes_sent, bytes_received);
  }
};
// Where the time of a step went at this party, seconds. Together StepRow::seconds, but for rounding. What overlaps with
// the other party's work counts for what this party did meanwhile.
struct StepTimeRow {
  int64_t step = 0;
  double data = 0;        // Gathering the batch's rows.
  double forward = 0;     // Forward computation of this party's half.
  double serialise = 0;   // Between matrices and messages.
  double wire = 0;        // Handing messages to the transport.
  double wait = 0;        // For the other party, and its messages to come.
  double backward = 0;    // Back-propagation of this party's half.
  double protection = 0;  // Perturbing, and the release gate.
  double update = 0;      // The optimisers.
  double attacks = 0;     // Those that this party runs, and recording.

  static constexpr char kTable[] = "step_time";
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(step, data, forward, serialise, wire, wait, backward, protection, update, attacks);
  }
};
// What a step's seconds are made of, in the order of StepTimeRow, and what each is called.
inline constexpr std::array<double StepTimeRow::*, 9> kStepPhases = {
    &StepTimeRow::data,     &StepTimeRow::forward,    &StepTimeRow::serialise, &StepTimeRow::wire,   &StepTimeRow::wait,
    &StepTimeRow::backward, &StepTimeRow::protection, &StepTimeRow::update,    &StepTimeRow::attacks};
inline constexpr std::array<const char*, 9> kStepPhaseNames = {"data",     "forward",    "serialise", "wire",   "wait",
                                                               "backward", "protection", "update",    "attacks"};
// What was done to the gradients of a step (ProtectionReport), and what the release gate decided. Label party only;
// NaN: does not apply to the method.
struct ProtectionRow {
  int64_t step = 0;
  std::string method;
  double u, v, g, p, power, lambda1_neg, lambda2_neg, lambda1_pos, lambda2_pos, sum_kl, auc_bound;
  v1::GateAction gate = v1::GATE_ACTION_UNSPECIFIED;  // Written as GateActionName.

  static constexpr char kTable[] = "protection";
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(step, method, u, v, g, p, power, lambda1_neg, lambda2_neg, lambda1_pos, lambda2_pos, sum_kl, auc_bound,
            gate);
  }
};
// One attack on one batch: its AUC as measured, not inverted. At the non-label party those that it was disclosed.
struct LeakRow {
  int64_t step = 0;
  std::string observer, layer, attack;
  double auc = 0;
  int64_t examples = 0;

  static constexpr char kTable[] = "leak";
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(step, observer, layer, attack, auc, examples);
  }
};
// One attack over all examples of one epoch, each scored once (or once per run). Figures
// with the ends of their 95% intervals; NaN if one class is absent.
struct EpochLeakRow {
  int64_t epoch = 0;
  std::string observer, layer, attack;
  int64_t examples = 0, positives = 0;
  double auc = 0, auc_low = 0, auc_high = 0;
  double tpr_1pct = 0, tpr_1pct_low = 0, tpr_1pct_high = 0;     // True positive rate at a false positive rate of 1%
  double tpr_01pct = 0, tpr_01pct_low = 0, tpr_01pct_high = 0;  // and of 0.1%; inverted if the AUC is below 0.5.
  // What the noise allows: exact for Gaussian classes, and by Theorem 1. NaN: no bound holds.
  double gaussian_auc_bound = 0, auc_bound = 0;

  static constexpr char kTable[] = "epoch_leak";
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(epoch, observer, layer, attack, examples, positives, auc, auc_low, auc_high, tpr_1pct, tpr_1pct_low,
            tpr_1pct_high, tpr_01pct, tpr_01pct_low, tpr_01pct_high, gaussian_auc_bound, auc_bound);
  }
};
// One bin of the histogram of a quantity over the examples of one class in one epoch. Label party only.
struct DistributionRow {
  int64_t epoch = 0;
  std::string quantity;  // norm, cosine: of the perturbed cut gradients; clean_norm, clean_cosine: before the noise.
  int64_t label = 0;     // 0 or 1.
  int64_t bin = 0;
  double low = 0, high = 0;
  int64_t examples = 0;

  static constexpr char kTable[] = "distribution";
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(epoch, quantity, label, bin, low, high, examples);
  }
};
// What an attack of the label party on a sensitive attribute reached after an epoch. Non-label party only.
struct AttributeLeakRow {
  int64_t epoch = 0;
  std::string attack, attribute;
  std::string examples;  // test, training: those that it was tried on.
  int64_t rows = 0;      // Of them, those whose attribute is known. NaN below if there are none.
  double accuracy = 0, accuracy_low = 0, accuracy_high = 0;  // Share guessed right, ends of the 95% interval.
  double floor = 0;                                          // Share of the most common value: guessing it always.
  double auc = 0;                                            // Of several values the mean of each against the rest.

  // By how much it is better than no attack.
  double advantage() const { return accuracy - floor; }

  static constexpr char kTable[] = "attribute_leak";
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(epoch, attack, attribute, examples, rows, accuracy, accuracy_low, accuracy_high, floor, auc);
  }
};
// Quality of the model after a step, on one part of the examples.
struct EvaluationRow {
  int64_t step = 0;
  std::string split;  // train, test.
  // NaN: not a figure of this task. Of several classes `auc` is the mean of each against the rest; the last two are of
  // a regression.
  double log_loss = 0, auc = 0, accuracy = 0, calibration_error = 0;
  double rmse = std::numeric_limits<double>::quiet_NaN(), r_squared = std::numeric_limits<double>::quiet_NaN();
  // What chose these weights as those that the run keeps so far: "validation", "test", "last"; empty: they are not.
  std::string kept = "last";

  static constexpr char kTable[] = "evaluation";
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(step, split, log_loss, auc, accuracy, calibration_error, rmse, r_squared, kept);
  }
};

// One protected attribute in one step. Non-label party only.
struct PrivacyLossRow {
  int64_t step = 0;
  std::string attribute;
  double privacy_loss = 0;  // Of the batch as it was sent: L_p in nats, or the simulated adversary's loss.
  double threshold = 0;     // NaN: the method has none.
  double weight = 0, utility_weight = 0;  // Of both gradients in the step.
  int64_t correction_steps = 0;           // On the privacy losses alone, before the batch was sent.
  bool at_front = false;                  // The step went along the Pareto front, not toward it.

  static constexpr char kTable[] = "privacy_loss";
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(step, attribute, privacy_loss, threshold, weight, utility_weight, correction_steps, at_front);
  }
};
// What Gaussian noise on clipped activations proves of all of an example's releases in the run, whatever the attribute.
struct ActivationBoundRow {
  int64_t releases = 0;
  double mu = 0, auc_bound = 0;

  static constexpr char kTable[] = "activation_bound";
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(releases, mu, auc_bound);
  }
};

// Something that happened once: `at` in RFC 3339 (UTC), `kind` one word, `detail` counts and names, never a label, an
// id or a key.
struct EventRow {
  std::string at, kind, detail;

  static constexpr char kTable[] = "event";
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(at, kind, detail);
  }
};

// `detail`: empty for any.
bool HasEvent(absl::Span<const EventRow> events, absl::string_view kind, absl::string_view detail = "");

// Kind of the event before the run's first gradients, if they are sent slice by slice, before their step has a row.
inline constexpr char kFirstSliceSent[] = "first_slice_sent";
// From here on the party sends what it computes of labels, or of features.
inline constexpr char kReleasesFollow[] = "releases_follow";
// Of the non-label party: agreed guesses of the label party that never came.
inline constexpr char kGuessesMissing[] = "attribute_guesses";
// An earlier run, by its id, that the run's privacy account counted and does not know of: an older copy of the account
// was put back, which the operator has accepted.
inline constexpr char kLostByAccount[] = "lost_by_account";

// Kind of the event of a prediction run that stored a version for `label_party serve`: its number.
inline constexpr char kStoredVersion[] = "stored_version";

// Kind of the event that counts a caller's answers of a day (RecordUnprovedAnswers): "17 to shop".
inline constexpr char kUnprovedAnswers[] = "unproved_answers";
// How many a run's events count.
int64_t CountUnprovedAnswers(absl::Span<const EventRow> events);

// The enum's name in small letters: "release", "raise_noise". "unknown" for what is none of its values.
std::string GateActionName(v1::GateAction action);

// The action of that name; GATE_ACTION_UNSPECIFIED if there is none, as in the ledger of a later version.
v1::GateAction GateActionOf(absl::string_view name);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_LEDGER_LEDGER_ROWS_H_
