// What a run of the label party has before its peer connects, and what it keeps on the disk: ledger, checkpoints,
// journal of what was answered.
#ifndef SPLITVEIL_LABEL_PARTY_STORAGE_RUN_RECORDS_H_
#define SPLITVEIL_LABEL_PARTY_STORAGE_RUN_RECORDS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/checkpoint/checkpoint.h"
#include "common/checkpoint/checkpoint_plan.h"
#include "common/checkpoint/checkpoint_writer.h"
#include "common/checkpoint/release_journal.h"
#include "common/dataset/dataset.h"
#include "common/figures/all_runs.h"
#include "common/ledger/ledger.h"
#include "common/operations/run_status.h"

#include "splitveil/v1/agreement.pb.h"
#include "splitveil/v1/checkpoint.pb.h"
#include "splitveil/v1/party.pb.h"
#include "splitveil/v1/split_training.pb.h"

namespace splitveil {

struct RunContext {
  const v1::RunAgreement agreement;   // Canonical and valid.
  const v1::LabelPartyConfig config;  // Valid; defaults set.
  const std::shared_ptr<const Dataset> data;
  const std::shared_ptr<const Dataset> known_attributes;  // Null: no attacks on attributes are agreed.
  RunStatus* const status;                                // Not owned; must outlive the run.
  const std::string account_id;                           // Of the privacy account; empty: none counts the run.
};

struct LabelState {
  double cumulative_sum_kl = 0;  // Nats; over this run and all it continued. Infinite: released without noise.
  std::string privacy_account;   // That has counted all of cumulative_sum_kl; empty: none has.
};

v1::LabelPartyState ToProto(const LabelState& state);

// Errors: InvalidArgument if the divergence is negative or no number.
absl::StatusOr<LabelState> LabelStateFrom(const v1::LabelPartyState& proto);

// What a run of this configuration releases of labels; an empty message with neither gaussian_label_dp nor label_dp.
// Errors: see PlannedReleases.
absl::StatusOr<v1::LabelReleases> LabelReleasesOf(const RunContext& run);

// What a run of this configuration will release of labels, as the ledger's other runs see it. `row`: names run and
// protection; becomes one about these labels (DescribeLabels). Errors: see PlannedReleases, LostStarts.
absl::StatusOr<LabelRun> PlannedRun(const RunContext& run, const std::string& ledger_path, RunRow row);

// Checks that a run which began with the releases `begun` continues with them. What a run claims about its labels
// (run_auc_bound, epsilon) covers one plan: with a different strength in its second part, the claim would not count the
// draws of the first part, and with a different label set the noise would have a different key. Error: InvalidArgument,
// with the field, what the run began with and what is configured now.
absl::Status CheckSameReleases(const v1::LabelReleases& begun, const v1::LabelReleases& now);

// Not thread-safe.
class RunRecords {
 public:
  // `run`: not owned; must outlive this.
  RunRecords(const RunContext* run, CheckpointPlan checkpoints, std::string ledger_path);

  // Finds the latest unfinished checkpoint that both parties have, or else the one whose weights the peer starts from;
  // neither: it starts with fresh weights. Errors: FailedPrecondition with what either party has, and if a run was
  // interrupted whose releases a new one would repeat with other noise, uncounted.
  absl::Status ChooseCheckpoint(const v1::OpenRequest& request);
  // The checkpoint of the interrupted run that this one continues; null: it is a new run.
  const Checkpoint* continued() const { return continues_ ? checkpoint_.get() : nullptr; }
  // Opens the ledger and, if checkpoints are written, the journal; `row` lacks what the checkpoint says. Errors:
  // those of the ledger and of ReleaseJournal; InvalidArgument as CheckSameReleases; ResourceExhausted as CountTakeUp.
  absl::Status Begin(RunRow row);

  // What a continued run resumes with. Errors: see ContinuationOf.
  absl::StatusOr<Continuation> TakeContinuation() const;
  // Goes with every checkpoint. Errors: see CheckpointPlan::KeepContinuation.
  absl::Status KeepContinuation(const Digest& seed, const AlignedIds& aligned, int64_t in_flight_batches);
  // The largest divergence of all releases of one example in the runs from whose checkpoints this run may have started,
  // including what they released after their checkpoint. Infinite if unknown; 0 without any. Errors: as
  // ReleaseJournal::LargestSumKl.
  absl::StatusOr<double> CountedSumKl() const;
  // The checkpoint chosen; null: fresh weights. From then on none is held here.
  std::shared_ptr<const Checkpoint> TakeCheckpoint();

  // Whether something of the run may have been released, as far as this party can tell: not before its first step.
  bool may_have_released() const { return journal_ == nullptr || !journal_->empty(); }

  // Null before Begin.
  Ledger* ledger() const { return ledger_.get(); }
  // What the run will release of its labels.
  const LabelRun& planned() const { return planned_; }
  // Null before Begin, and of a run without checkpoints.
  ReleaseJournal* journal() const { return journal_.get(); }

  bool writes_checkpoints() const { return !checkpoints_.path.empty(); }
  // Null before Begin, and of a run without checkpoints.
  CheckpointWriter* checkpoint_writer() const { return writer_.get(); }
  // Before the ledger is finished. Errors: see CheckpointWriter::Wait.
  absl::Status FinishCheckpoint();
  // Both parties know that the run is complete: marks its checkpoints so that nothing continues them. If that cannot be
  // written, the log says so; the peer, which has nothing to continue, prevents it, too.
  void MarkComplete();

 private:
  bool IsSettled(const Checkpoint& checkpoint) const;
  // Whether what `journal` says was released is counted by a run that starts from the weights of the peer's
  // `resumed_from` (CountedSumKl), and within a limit: without one, the peer could have as many new runs as it likes.
  absl::StatusOr<bool> AddsUp(const std::string& journal, const std::string& resumed_from) const;
  // No interrupted run is continued, so none may block a new one. Read from the disk, as another process may have
  // left a run since this one began. `resumed_from`: the peer's. Errors: see ChooseCheckpoint.
  absl::Status CheckMayStartNew(const std::string& resumed_from) const;
  // Writes into every checkpoint what is released of the labels; of a run that is continued, checks that it is as it
  // was.
  absl::Status KeepReleases(const std::string& protection);
  absl::Status BeginLedger(RunRow row);
  absl::Status BeginJournal();

  const RunContext* const run_;
  CheckpointPlan checkpoints_;
  const std::string ledger_path_;
  std::string run_id_;  // From Begin on.
  std::shared_ptr<const Checkpoint> checkpoint_;
  bool continues_ = false;  // The run of that checkpoint, and not only from its weights.
  LabelRun planned_;
  std::unique_ptr<Ledger> ledger_;
  std::unique_ptr<ReleaseJournal> journal_;
  std::unique_ptr<CheckpointWriter> writer_;  // Last: uses all above.
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_STORAGE_RUN_RECORDS_H_
