// How a run of the label party begins: agreements compared, a checkpoint chosen, ids aligned, seeds revealed.
#ifndef SPLITVEIL_LABEL_PARTY_SESSION_RUN_OPENING_H_
#define SPLITVEIL_LABEL_PARTY_SESSION_RUN_OPENING_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/alignment/private_set_intersection.h"
#include "common/crypto/sha256.h"
#include "common/schedule/joint_seed.h"
#include "label_party/protection/protection_factory.h"
#include "label_party/session/protocol_state.h"
#include "label_party/session/run_context.h"
#include "label_party/session/run_end.h"
#include "label_party/session/run_records.h"
#include "label_party/session/training.h"

#include "splitveil/v1/split_training.pb.h"

namespace splitveil {

// Open, Align and Start, in this order; the state has been checked (ProtocolState). An error has ended the run unless
// it says otherwise. Not thread-safe.
class RunOpening {
 public:
  struct Options {
    Protection protection;
    bool only_continues = false;  // LabelSessionOptions'.
  };

  // `run`, `protocol`, `records`, `end`: not owned; must outlive this.
  RunOpening(Options options, SeedExchange seed, const RunContext* run, ProtocolState* protocol, RunRecords* records,
             RunEnd* end);

  // Whether `request` opens, at another process of the peer's, a run that can be taken up from a checkpoint.
  bool IsTakenUpBy(const v1::OpenRequest& request) const;

  // Opens the run: agreement, checkpoint, ledger. Where a broken run is continued it is aligned at once. Errors:
  // InvalidArgument where the seed is no commitment, and the run goes on; FailedPrecondition where it cannot be opened.
  absl::StatusOr<v1::OpenResponse> Open(const v1::OpenRequest& request);

  // Counts the alignment, of which each tells the peer something of this party's set.
  absl::Status BeginAlignment();
  // What it came to. One attempt per run, since each would let the peer try another list of ids. Too few examples in
  // common end the run, of which the peer is not told: it finds the same.
  absl::Status FinishAlignment(absl::StatusOr<AlignedIds> aligned);

  // Compares the order and combines the seeds: what the run trains with but for an auditor. Once; its `rows` lie here.
  absl::StatusOr<TrainingInputs> Start(const v1::StartRequest& request);
  // What the peer gets to make the same seed of, once it has shown its own.
  const std::string& seed_reveal() const { return seed_.reveal(); }

 private:
  // Of the split that the tables tell (IsSplitByTables).
  Digest OwnSplitDigest() const;

  // Of the broken run: its alignment and its seed.
  absl::Status Continue(const Checkpoint& checkpoint);

  const RunContext* const run_;
  ProtocolState* const protocol_;
  RunRecords* const records_;
  RunEnd* const end_;
  const bool only_continues_;
  Protection protection_;  // Until Start.
  const SeedExchange seed_;
  std::string peer_commitment_;
  std::optional<JointSeed> continued_seed_;  // Of the run that this one goes on with.
  AlignedIds aligned_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_SESSION_RUN_OPENING_H_
