// The record of a run: SQLite in WAL mode, one file per party. Tables: common/ledger/README.md.
#ifndef SPLITVEIL_COMMON_LEDGER_LEDGER_H_
#define SPLITVEIL_COMMON_LEDGER_LEDGER_H_

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "common/ledger/claim_check.h"

#include "splitveil/v1/checkpoint.pb.h"
#include "splitveil/v1/protection.pb.h"

namespace splitveil {

struct RunRow {
  std::string run_id, role, agreement_sha256, protection, config_json;
  std::string resumed_from = "";  // Run id of the checkpoint this run started from; empty: fresh weights.
};
struct StepRow {
  int64_t step = 0, epoch = 0, batch = 0, examples = 0;
  double loss = 0, seconds = 0;  // loss NaN: unknown to this party.
  int64_t bytes_sent = 0, bytes_received = 0;
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
};
// What a step's seconds are made of, in the order of StepTimeRow, and what each is called.
inline constexpr std::array<double StepTimeRow::*, 9> kStepPhases = {
    &StepTimeRow::data,     &StepTimeRow::forward,    &StepTimeRow::serialise, &StepTimeRow::wire,   &StepTimeRow::wait,
    &StepTimeRow::backward, &StepTimeRow::protection, &StepTimeRow::update,    &StepTimeRow::attacks};
inline constexpr std::array<const char*, 9> kStepPhaseNames = {"data",     "forward",    "serialise", "wire",   "wait",
                                                               "backward", "protection", "update",    "attacks"};
struct ProtectionRow {
  int64_t step = 0;
  std::string method;
  double u, v, g, p, power, lambda1_neg, lambda2_neg, lambda1_pos, lambda2_pos, sum_kl, auc_bound;
  v1::GateAction gate = v1::GATE_ACTION_UNSPECIFIED;  // Written as GateActionName.
};
struct LeakRow {
  int64_t step = 0;
  std::string observer, layer, attack;
  double auc = 0;
  int64_t examples = 0;
};
// One attack over all examples of one epoch, each scored once (or once per run). Figures
// with the ends of their 95% intervals; NaN where one class is absent.
struct EpochLeakRow {
  int64_t epoch = 0;
  std::string observer, layer, attack;
  int64_t examples = 0, positives = 0;
  double auc = 0, auc_low = 0, auc_high = 0;
  double tpr_1pct = 0, tpr_1pct_low = 0, tpr_1pct_high = 0;     // True positive rate at a false positive rate of 1%
  double tpr_01pct = 0, tpr_01pct_low = 0, tpr_01pct_high = 0;  // and of 0.1%; inverted where the AUC is below 0.5.
  // What the noise allows: exact for Gaussian classes, and by Theorem 1. NaN: no bound holds.
  double gaussian_auc_bound = 0, auc_bound = 0;

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
};
// What an attack of the label party on a sensitive attribute reached after an epoch. Non-label party only.
struct AttributeLeakRow {
  int64_t epoch = 0;
  std::string attack, attribute;
  std::string examples;  // test, training: those that it was tried on.
  int64_t rows = 0;      // Of them, those whose attribute is known. NaN below where there are none.
  double accuracy = 0, accuracy_low = 0, accuracy_high = 0;  // Share guessed right, ends of the 95% interval.
  double floor = 0;                                          // Share of the most common value: guessing it always.
  double auc = 0;                                            // Of several values the mean of each against the rest.

  // By how much it is better than no attack.
  double advantage() const { return accuracy - floor; }

  template <typename Archive>
  void serialize(Archive& archive) {
    archive(epoch, attack, attribute, examples, rows, accuracy, accuracy_low, accuracy_high, floor, auc);
  }
};
struct EvaluationRow {
  int64_t step = 0;
  std::string split;  // train, test.
  // NaN: not a figure of this task. Of several classes `auc` is the mean of each against the rest; the last two are of
  // a regression.
  double log_loss = 0, auc = 0, accuracy = 0, calibration_error = 0;
  double rmse = std::numeric_limits<double>::quiet_NaN(), r_squared = std::numeric_limits<double>::quiet_NaN();
};

// One protected attribute in one step. Non-label party only.
struct PrivacyLossRow {
  int64_t step = 0;
  std::string attribute;
  double privacy_loss = 0;                // Of the batch as it left: L_p in nats, or the simulated adversary's loss.
  double threshold = 0;                   // NaN: the method has none.
  double weight = 0, utility_weight = 0;  // Of both gradients in the step.
  int64_t correction_steps = 0;           // On the privacy losses alone, before the batch could leave.
  bool at_front = false;                  // The step went along the Pareto front, not toward it.
};
// What Gaussian noise on clipped activations proves of all of an example's releases in the run, whatever the attribute.
struct ActivationBoundRow {
  int64_t releases = 0;
  double mu = 0, auc_bound = 0;
};

struct EventRow {
  std::string at, kind, detail;
};

// A row as it was recorded, borrowed for the call; those of the other tables are told to nobody.
using RecordedRow = std::variant<const StepRow*, const StepTimeRow*, const ProtectionRow*, const LeakRow*,
                                 const EpochLeakRow*, const EvaluationRow*, const EventRow*>;
// Called by the thread that records, once the row has been taken. Must be thread-safe, and must not call the ledger.
using LedgerObserver = std::function<void(const RecordedRow&)>;

// Thread-safe. Rows are buffered in one transaction and committed when it is a second old, by Commit and at the end, so
// a crash loses at most the last second; other processes may read meanwhile and see what is committed. NaN and infinite
// numbers are stored as NULL. Errors of Record*: AlreadyExists for a row whose key was recorded before (it is not
// changed, and recording goes on); FailedPrecondition after Finish; what SQLite says where a commit failed (disk full:
// Internal), then at every later call, since rows are lost. Messages of Create name the path: for this party alone.
class Ledger {
 public:
  // Opens or creates `path` and begins the run. Errors: InvalidArgument where the file is no ledger of this version,
  // cannot be opened or written, or lies on a file system that cannot do WAL, and where the run exists or has no name;
  // NotFound where its folder does not exist; Internal while another process holds it locked.
  // `retained_steps` above 0: of the rows of single steps those of the latest steps stay, at least as many.
  static absl::StatusOr<std::unique_ptr<Ledger>> Create(const std::string& path, const RunRow& run,
                                                        int64_t retained_steps = 0);
  // Goes on with a run that was broken off, from the rows that it had at `position`: those beyond are removed, for they
  // are recorded again; events that tell of interruptions and refusals stay. A ledger that does not know the run begins
  // it. Errors: the same, but for a run that exists.
  static absl::StatusOr<std::unique_ptr<Ledger>> Continue(const std::string& path, const RunRow& run,
                                                          const v1::LedgerPosition& position,
                                                          int64_t retained_steps = 0);
  // Commits. A run that was not finished stays "running".
  ~Ledger();

  absl::Status Record(const StepRow& row);
  absl::Status Record(const StepTimeRow& row);
  absl::Status Record(const ProtectionRow& row);
  absl::Status Record(const LeakRow& row);
  absl::Status Record(const EpochLeakRow& row);
  absl::Status Record(const DistributionRow& row);
  absl::Status Record(const EvaluationRow& row);
  absl::Status Record(const AttributeLeakRow& row);
  absl::Status Record(const ClaimCheckRow& row);
  absl::Status Record(const AllRunsRow& row);
  absl::Status Record(const PrivacyLossRow& row);
  absl::Status Record(const ActivationBoundRow& row);
  // From now on `observer` is told of what is recorded, and first of the run's events so far. Before other threads
  // record. Errors: what SQLite says.
  absl::Status Observe(LedgerObserver observer);
  // `detail` holds counts and names, never a label, an id or a key.
  absl::Status RecordEvent(absl::string_view kind, absl::string_view detail);
  // Events of this kind in the file, of all its runs.
  absl::StatusOr<int64_t> CountEvents(absl::string_view kind);
  // Those of the run alone, the parts before it was broken off included; `detail`: with this detail, where there is
  // one.
  absl::StatusOr<int64_t> CountEventsOfRun(absl::string_view kind, absl::string_view detail = "");
  // Makes every row recorded so far visible to readers and safe from a crash.
  absl::Status Commit();
  // LedgerPosition.last_event, once all is committed.
  absl::StatusOr<int64_t> CommitAndLastEvent();
  // Ends the run with a status (completed, stopped, failed, halted) and commits. Errors: InvalidArgument for another
  // status; FailedPrecondition the second time.
  absl::Status Finish(absl::string_view status);

 private:
  class Database;
  // `position`: to go on from; null: the run begins.
  static absl::StatusOr<std::unique_ptr<Ledger>> Open(const std::string& path, const RunRow& run,
                                                      const v1::LedgerPosition* position, int64_t retained_steps);
  Ledger(std::unique_ptr<Database> database, int64_t retained_steps);
  // `status` of having recorded `row`, told where it was.
  template <typename Row>
  absl::Status Told(absl::Status status, const Row& row) const;

  std::unique_ptr<Database> database_;
  const int64_t retained_steps_;
  LedgerObserver observer_;  // Null: nobody.
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_LEDGER_LEDGER_H_
