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
#include "common/schedule/joint_seed.h"
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

  // Opens the run: agreement, checkpoint, ledger. Where a broken run is continued it is aligned at once. Errors:
  // InvalidArgument where the seed is no commitment, and the run goes on; FailedPrecondition where it cannot be opened.
  absl::StatusOr<v1::OpenResponse> Open(const v1::OpenRequest& request);

  // Counts the alignment, of which each tells the peer something of this party's set.
  absl::Status BeginAlignment();
  int alignments_left() const { return alignments_left_; }
  // What it came to. One whose connection was lost may be restarted if an outage is agreed: the run goes on. Any
  // other error ends it. Too few examples in common end the run, of which the peer is not told: it finds the same.
  absl::Status FinishAlignment(absl::StatusOr<AlignedIds> aligned);

  // Answers as asked, up to kMostMeasurements times. Errors, after which the run goes on: FailedPrecondition where
  // batches in flight are agreed; InvalidArgument for more bytes than a message may have; ResourceExhausted.
  absl::StatusOr<v1::MeasureLinkResponse> MeasureLink(const v1::MeasureLinkRequest& request);
  static constexpr int kMostMeasurements = 256;

  // Compares the order and combines the seeds: what the run trains with but for an auditor. Once; its `rows` lie here.
  absl::StatusOr<TrainingInputs> Start(const v1::StartRequest& request);
  // What the peer gets to make the same seed of, once it has shown its own.
  const std::string& seed_reveal() const { return seed_.reveal(); }

 private:
  // Where both parties have kept the same alignment: its name; else empty, and they align.
  absl::StatusOr<std::string> UseAlignmentCache(const v1::OpenRequest& request);
  // The parties know which examples they share. `detail`: of the event.
  absl::Status Aligned(const std::string& detail);
  // Batches in flight as the peer says. Errors: FailedPrecondition where they are not as agreed, or as they were in the
  // run that is continued.
  absl::StatusOr<int64_t> InFlightBatches(const v1::StartRequest& request) const;
  // Of the split that the tables tell (IsSplitByTables).
  Digest OwnSplitDigest() const;

  // Of the broken run: its alignment and its seed.
  absl::Status Continue(const Checkpoint& checkpoint);

  Run* const run_;
  const bool only_continues_;
  int alignments_left_;
  const AlignmentStore alignments_;
  Protection protection_;  // Until Start.
  const SeedExchange seed_;
  std::string peer_commitment_;
  std::optional<JointSeed> continued_seed_;  // Of the run that this one goes on with,
  int64_t continued_in_flight_ = 0;          // as its batches in flight.
  int measurements_ = 0;                     // Of the link.
  AlignedIds aligned_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_SESSION_RUN_OPENING_H_
