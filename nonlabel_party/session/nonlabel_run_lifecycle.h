// How a run of the non-label party begins, what it leaves after each epoch, and how it ends.
#ifndef SPLITVEIL_NONLABEL_PARTY_SESSION_NONLABEL_RUN_LIFECYCLE_H_
#define SPLITVEIL_NONLABEL_PARTY_SESSION_NONLABEL_RUN_LIFECYCLE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/alignment/private_set_intersection.h"
#include "common/checkpoint/checkpoint_plan.h"
#include "common/checkpoint/checkpoint_writer.h"
#include "common/ledger/ledger.h"
#include "common/model/model_state.h"
#include "common/schedule/joint_seed.h"
#include "nonlabel_party/session/answer_protocol.h"
#include "nonlabel_party/session/nonlabel_session_options.h"
#include "nonlabel_party/session/reconnector.h"
#include "nonlabel_party/session/stop_request.h"

namespace splitveil {

// Prepare, Open, Align, Start, Resume; Close where the run is complete; End in every case, whatever has been reached.
// Not thread-safe.
class NonLabelRunLifecycle {
 public:
  // Not owned; all must outlive this. `options`: the checkpoint to resume from is released once it is used, and
  // alignments that are begun are counted.
  NonLabelRunLifecycle(NonLabelSessionOptions* options, StopRequest* stop, Reconnector* reconnector,
                       AnswerProtocol* protocol)
      : options_(*options), stop_(*stop), reconnector_(*reconnector), protocol_(*protocol) {}

  // Before the first message: that the folder for the export will do.
  absl::Status Prepare() const;
  // Compares the agreements and commits to the seed; begins the ledger. Errors: the label party's; a refusal for a
  // malformed answer; as Ledger::Create.
  absl::Status Open();
  // Where a broken run is continued, the alignment is its; where both parties have kept one, that. One whose connection
  // is lost is begun anew, with other keys, once the label party is back. Errors: StoppedOnRequest; as
  // AlignUnlessStopped, CountAlignment, Reconnector::AwaitReturn and CheckSharedExamples.
  absl::Status Align();
  // As Reconnector::Options::record; kept until there is a ledger. Errors: those of the ledger.
  absl::Status RecordInterruption(const char* kind, const std::string& detail);
  // Confirms the aligned order and reveals the seeds. `split_sha256`: StartRequest.split_sha256; `batches_per_epoch`:
  // at least 1. Errors: the label party's; a refusal for a reveal that was not committed to.
  absl::StatusOr<JointSeed> Start(const std::string& split_sha256, int64_t batches_per_epoch);
  // Puts the model where the checkpoint left it; nothing where the run begins with fresh weights. The checkpoint of the
  // run that is continued, whose progress is the caller's to take; null: a new run.
  absl::StatusOr<std::shared_ptr<const Checkpoint>> Resume(ModelState& model);

  // The label party wants no epoch after the first `epochs`.
  absl::Status RecordEarlyStop(uint32_t epochs);

  // Null before there is a ledger, and where no checkpoints are written.
  CheckpointWriter* checkpoint_writer() const { return checkpoint_writer_.get(); }

  // Exports the model, where a folder for it is configured, and tells the label party that the run is complete; it
  // answers once it has kept what is its own. Errors: the label party's; those of the export and the ledger.
  absl::Status Close(const ModelState& model);
  // The one end of a run. Tells the label party where it comes early, and finishes the ledger. `outcome`: why it ends.
  // Returns the outcome with what failed here.
  absl::Status End(absl::Status outcome);

  // Empty, null and empty until the stage that makes them; `ended`, as the ledger has it, until End.
  const std::string& run_id() const { return run_id_; }
  const std::string& ended() const { return ended_; }
  Ledger* ledger() const { return ledger_.get(); }
  const AlignedIds& aligned() const { return aligned_; }
  // What a run that is continued has trained: whole epochs, and batches of the next one.
  uint32_t first_epoch() const { return continuation_.has_value() ? continuation_->epochs : 0; }
  uint32_t first_batch() const { return continuation_.has_value() ? continuation_->batches : 0; }
  // As agreed or measured; from Start on.
  int64_t in_flight_batches() const { return in_flight_batches_; }
  bool is_continued() const { return continuation_.has_value(); }

 private:
  absl::Status BeginLedger(const std::string& peer_version);
  // As agreed, as in the run that is continued, or as the link asks for.
  absl::StatusOr<int64_t> InFlightBatches(int64_t batches_per_epoch) const;
  // With the peer, until it comes to an end without losing it.
  absl::StatusOr<AlignedIds> AlignPersistently();
  // The parties know which examples they share. `detail`: of the event.
  absl::Status Aligned(const std::string& detail);
  absl::Status Export(const ModelState& model) const;
  // For the ledger.
  const char* FinalStatus(const absl::Status& outcome) const;

  NonLabelSessionOptions& options_;
  StopRequest& stop_;
  Reconnector& reconnector_;
  AnswerProtocol& protocol_;
  std::vector<std::pair<const char*, std::string>> interruptions_;  // Until there is a ledger.
  std::string run_id_, ended_;
  std::optional<SeedExchange> seed_;  // From Open to Start.
  std::string peer_commitment_;
  std::unique_ptr<Ledger> ledger_;
  AlignedIds aligned_;
  int64_t in_flight_batches_ = 1;
  std::shared_ptr<const Checkpoint> continued_;          // Until Resume; null: a new run.
  std::optional<Continuation> continuation_;             // Without `aligned`, from Align on.
  std::optional<AlignmentStore::Found> kept_;            // The alignment to be used again, from Open until Align.
  std::unique_ptr<CheckpointWriter> checkpoint_writer_;  // Last: uses some of the above.
};

}  // namespace splitveil

#endif  // SPLITVEIL_NONLABEL_PARTY_SESSION_NONLABEL_RUN_LIFECYCLE_H_
