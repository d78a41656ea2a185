// How a run of the label party begins: agreements compared, a checkpoint chosen, ids aligned, seeds revealed.
#ifndef SPLITVEIL_LABEL_PARTY_SESSION_RUN_OPENING_H_
#define SPLITVEIL_LABEL_PARTY_SESSION_RUN_OPENING_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/alignment/private_set_intersection.h"
#include "common/checkpoint/alignment_cache.h"
#include "common/crypto/digest.h"
#include "common/operations/run_facts.h"
#include "common/schedule/schedule.h"
#include "label_party/protection/protection_factory.h"
#include "label_party/session/run.h"
#include "label_party/training/training.h"

#include "splitveil/v1/split_training.pb.h"

namespace splitveil {

// Open, Align and Start, in this order; the state has been checked (ProtocolState). An error has ended the run unless
// it says otherwise. Not thread-safe.
class RunOpening {
 public:
  struct Options {
    Protection protection;
    AlignmentStore alignments;
    bool only_continues = false;  // LabelSessionOptions', as the next.
    int alignments_left = kMostAlignments;
  };

  // `run`: not owned; must outlive this.
  RunOpening(Options options, SeedExchange seed, Run* run);

  // Whether `request` opens, at another process of the peer's, a run that can be taken up from a checkpoint, or in the
  // place of which a new one may start, as nothing was released.
  bool IsTakenUpBy(const v1::OpenRequest& request) const;

  // Opens the run: agreement, checkpoint, ledger. A run that continues an interrupted one is aligned at once. Errors:
  // InvalidArgument if the seed is no commitment, and the run continues; FailedPrecondition if it cannot be opened.
  absl::StatusOr<v1::OpenResponse> Open(const v1::OpenRequest& request);

  // Counts the alignment: each one reveals to the peer something about this party's set of ids.
  absl::Status BeginAlignment();
  int alignments_left() const { return alignments_left_; }
  const Digest& identities() const { return alignments_.identities(); }  // Of both parties.
  // Takes the result of the alignment. One whose connection was lost may be restarted if an outage is agreed: the run
  // continues. Any other error ends it. Too few shared examples end the run; the peer is not told, since it finds the
  // same.
  absl::Status FinishAlignment(absl::StatusOr<AlignedIds> aligned);

  // Answers as asked, up to kMostMeasurements times. Errors, after which the run continues: FailedPrecondition if
  // batches in flight are agreed; InvalidArgument for more bytes than a message may have; ResourceExhausted.
  absl::StatusOr<v1::MeasureLinkResponse> MeasureLink(const v1::MeasureLinkRequest& request);
  static constexpr int kMostMeasurements = 256;

  // Compares the order and combines the seeds: what the run trains with but for an auditor. Once; its `rows` lie here.
  absl::StatusOr<TrainingInputs> Start(const v1::StartRequest& request);
  // What the peer needs to compute the same seed, sent once it has revealed its own part.
  const std::string& seed_reveal() const { return seed_.reveal(); }
  std::string alignment() const { return AlignmentName(aligned_); }  // From Align on.

 private:
  // If both parties have kept the same alignment: its name; else empty, and they align.
  absl::StatusOr<std::string> UseAlignmentCache(const v1::OpenRequest& request);
  // The parties know which examples they share. `detail`: of the event.
  absl::Status Aligned(const std::string& detail);
  // Batches in flight that the peer asks for. Errors: FailedPrecondition unless they are as agreed, and the same as in
  // the run that is continued.
  absl::StatusOr<int64_t> InFlightBatches(const v1::StartRequest& request) const;
  // Digest of the split that this party's table defines (IsSplitByTables).
  Digest OwnSplitDigest() const;

  // Takes alignment and seed of the interrupted run from its checkpoint.
  absl::Status Continue(const Checkpoint& checkpoint);

  Run* const run_;
  const bool only_continues_;
  int alignments_left_;
  const AlignmentStore alignments_;
  Protection protection_;  // Until Start.
  const SeedExchange seed_;
  std::string peer_commitment_;
  std::optional<JointSeed> continued_seed_;  // Of the run that this one continues,
  int64_t continued_in_flight_ = 0;          // as its batches in flight.
  int measurements_ = 0;                     // Of the link.
  AlignedIds aligned_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_SESSION_RUN_OPENING_H_
