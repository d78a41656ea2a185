// How a run of the non-label party begins and ends, and what it is given.
#ifndef SPLITVEIL_NONLABEL_PARTY_SESSION_NONLABEL_RUN_LIFECYCLE_H_
#define SPLITVEIL_NONLABEL_PARTY_SESSION_NONLABEL_RUN_LIFECYCLE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/alignment/private_set_intersection.h"
#include "common/checkpoint/alignment_cache.h"
#include "common/checkpoint/checkpoint_plan.h"
#include "common/checkpoint/checkpoint_writer.h"
#include "common/checkpoint/stored_version.h"
#include "common/dataset/dataset.h"
#include "common/ledger/ledger.h"
#include "common/model/model_state.h"
#include "common/operations/run_facts.h"
#include "common/operations/run_status.h"
#include "common/process/steady_time.h"
#include "common/schedule/schedule.h"
#include "common/workers/worker_group.h"
#include "nonlabel_party/session/answer_protocol.h"
#include "nonlabel_party/session/label_party_peer.h"
#include "nonlabel_party/session/reconnector.h"

#include "splitveil/v1/agreement.pb.h"
#include "splitveil/v1/party.pb.h"

namespace splitveil {

// What a run of the non-label party is given.
struct NonLabelSessionOptions {
  v1::RunAgreement agreement;      // Canonical and valid.
  v1::NonLabelPartyConfig config;  // Valid; defaults set.
  std::string ledger_path;
  std::shared_ptr<const Dataset> data;  // Prepared for the agreement's split (CheckSplit).
  CheckpointPlan checkpoints;
  AlignmentStore alignments;
  int alignments_left = kMostAlignments;  // Of this process.
  LabelPartyPeer* peer = nullptr;         // Not owned; must outlive the session.
  // Waits until the label party can be reached again (Reconnector::Options). Empty: a lost connection ends the run.
  std::function<absl::Status(SteadyTime deadline)> reach;
  RunStatus* status = nullptr;     // Not owned; must outlive the session.
  WorkerGroup* workers = nullptr;  // Who computes the bottom model with this process; null: nobody. Not owned.
  bool (*stop)() = nullptr;  // Asked between stages and batches, while aligning every 100 ms, there on a thread of
                             // the session; true ends the run cleanly.
};

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
  // A resumed run uses its own alignment; otherwise one that both parties have cached is used. An alignment whose
  // connection is lost restarts with new keys once the label party is back. Asks for a stop every 100 ms, on a separate
  // thread. Errors: StoppedOnRequest; the label party's; see CountAlignment, Reconnector::AwaitReturn and
  // CheckSharedExamples.
  absl::Status Align();
  // As Reconnector::Options::record; kept until there is a ledger. Errors: those of the ledger.
  absl::Status RecordInterruption(const char* kind, const std::string& detail);
  // Confirms the aligned order and reveals the seeds. `split_sha256`: StartRequest.split_sha256; `batches_per_epoch`:
  // at least 1. Errors: the label party's; a refusal for a reveal that was not committed to.
  absl::StatusOr<JointSeed> Start(const std::string& split_sha256, int64_t batches_per_epoch);
  // Loads the checkpoint's weights into the model, if there is a checkpoint. Returns the checkpoint of the resumed run,
  // whose progress the caller loads; null for a new run.
  absl::StatusOr<std::shared_ptr<const Checkpoint>> Resume(ModelState& model);

  // This party's half of a version, to be published once all is sent; null where none is kept. Before Resume.
  absl::StatusOr<std::unique_ptr<VersionWriter>> BeginVersion() const;
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
