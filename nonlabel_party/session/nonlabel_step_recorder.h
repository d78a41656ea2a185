// What this party records of a training step and of the protection of its activations.
#ifndef SPLITVEIL_NONLABEL_PARTY_SESSION_NONLABEL_STEP_RECORDER_H_
#define SPLITVEIL_NONLABEL_PARTY_SESSION_NONLABEL_STEP_RECORDER_H_

#include <cereal/access.hpp>
#include <cstdint>
#include <string>

#include "absl/status/status.h"

#include "common/ledger/ledger.h"
#include "common/operations/run_status.h"
#include "nonlabel_party/protection/protected_bottom_model.h"

namespace splitveil {

// Sums over the recorded steps of a run.
struct StepTotals {
  int64_t steps = 0;
  int64_t examples = 0;  // Each counted once per step that it was in.
  double seconds = 0;
  double waited_seconds = 0;  // Of those, for the label party.
  int64_t bytes_sent = 0, bytes_received = 0;

  template <typename Archive>
  void serialize(Archive& archive) {
    archive(steps, examples, seconds, waited_seconds, bytes_sent, bytes_received);
  }
};

// For each batch: Begin, AddReceived and Lap as it goes, Learnt, and Record when its attacks are done. Not thread-safe.
class NonLabelStepRecorder {
 public:
  // `ledger`, `status`: not owned; must outlive this. Sets the status's phase to training.
  NonLabelStepRecorder(Ledger* ledger, RunStatus* status, int64_t epochs, int64_t batches_per_epoch)
      : ledger_(ledger), status_(status), progress_(status, epochs, batches_per_epoch) {}

  // As StepStopwatch.
  void Restart() { stopwatch_.Restart(); }
  void Lap(StepStopwatch::Phase phase) { stopwatch_.Lap(phase); }
  void Move(double seconds, StepStopwatch::Phase from, StepStopwatch::Phase to) { stopwatch_.Move(seconds, from, to); }

  // The batch whose answer comes next. `bytes_sent`: of its activations.
  void Begin(uint32_t epoch, uint32_t batch, int64_t examples, int64_t bytes_sent);
  // What the protection of the activations did to it.
  void SetProtection(const ProtectionStep& protection) { protection_ = protection; }
  void AddReceived(int64_t bytes) { row_.bytes_received += bytes; }
  // Its answer has come, `seconds` after its activations were sent: for the status alone.
  void AddTurn(double seconds) { turn_seconds_ += seconds; }
  // Of the batch under way.
  int64_t step() const { return row_.step; }

  // The batch has been learnt from, or its frozen answer taken: from now on it counts, also where the run ends before
  // its attacks do, for the label party has recorded it, too.
  void Learnt() { due_ = true; }
  bool due() const { return due_; }
  // Records the batch that is due, once; nothing where none is. `leak`: as TrainingProgress::Report. Errors: the
  // ledger's.
  absl::Status Record(const std::string& leak);

  // From the batch under way on no gradient comes any more: an event in the ledger, and a log line.
  absl::Status RecordFrozen();

  // Ends the line on the terminal.
  void EndProgress() { progress_.Finish(); }
  const StepTotals& totals() const { return totals_; }

 private:
  absl::Status RecordProtection();

  friend class cereal::access;
  // Between steps.
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(row_.step, totals_);
  }

  Ledger* const ledger_;
  RunStatus* const status_;
  TrainingProgress progress_;
  StepStopwatch stopwatch_;
  StepRow row_;  // Of the batch under way,
  ProtectionStep protection_;
  bool due_ = false;
  StepTotals totals_;
  double turn_seconds_ = 0;  // Of this process.
};

// Records as an event what `protection` promises of a run that sends each example's activations `releases` times:
// nothing without a protection. `steps`: of ProtectedBottomModel::Pretrain. Errors: the ledger's.
absl::Status RecordActivationProtection(const v1::ActivationProtection& protection, const ProtectedBottomModel& model,
                                        int64_t steps, int64_t releases, Ledger& ledger);
// The bound that this proves, which a run that resumes records again; nothing where nothing is proved.
absl::Status RecordActivationBound(const ProtectedBottomModel& model, int64_t releases, Ledger& ledger);

// Records the largest privacy losses of what was predicted since the last call, if the protection has a threshold.
// `examples`, `when`: in words. Errors: the ledger's.
absl::Status RecordPrivacyLosses(ProtectedBottomModel& model, const char* examples, const std::string& when,
                                 Ledger& ledger);

}  // namespace splitveil

#endif  // SPLITVEIL_NONLABEL_PARTY_SESSION_NONLABEL_STEP_RECORDER_H_
