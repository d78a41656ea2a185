// A party's checkpoints of one run: what it resumes from, and what it leaves.
#ifndef SPLITVEIL_COMMON_CHECKPOINT_CHECKPOINT_PLAN_H_
#define SPLITVEIL_COMMON_CHECKPOINT_CHECKPOINT_PLAN_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "common/alignment/private_set_intersection.h"
#include "common/checkpoint/checkpoint.h"
#include "common/crypto/digest.h"
#include "common/dataset/dataset.h"

#include "splitveil/v1/agreement.pb.h"
#include "splitveil/v1/checkpoint.pb.h"
#include "splitveil/v1/party.pb.h"

namespace splitveil {

// What a run that was interrupted resumes with, in place of a new alignment and a new schedule. The steps that the
// broken run had begun and that are repeated meet the same examples at the same positions, so that the same models give
// the same gradients and, under a kept key (label_party/protection/noise_key.h), the same bytes.
struct Continuation {
  Digest seed;  // The broken run's joint seed.
  AlignedIds aligned;
  uint32_t epochs = 0, batches = 0;  // Trained so far: whole epochs, and batches of the next one.
  // Batches in flight, from which follow the slices on the wire and what is computed before which update.
  int64_t in_flight_batches = 1;
};

// nullopt where `checkpoint` is no state of a run of this agreement on this very data that has something left. Not
// under progressive_validation, whose one prediction comes first. Errors: InvalidArgument where it is, and is
// malformed, or the file with its aligned rows (run_files.h) is gone.
absl::StatusOr<std::optional<Continuation>> ContinuationOf(const Checkpoint& checkpoint,
                                                           const v1::RunAgreement& agreement, const Dataset& data);

struct CheckpointPlan {
  // What the checkpoints of this run say, but for run, place and the label party's state.
  v1::CheckpointHeader facts;
  std::string path;  // Where they go; empty: nowhere.
  // Weights to start from: `initial_checkpoint`, then those before it where they were kept. Empty: fresh ones.
  std::vector<std::shared_ptr<const Checkpoint>> initial;
  // What is there at `path`, the latest first, and may be of a run to be continued.
  std::vector<std::shared_ptr<const Checkpoint>> unfinished;
  // The latest at `path`, of any agreement, model and data, if its run was interrupted; null: it is complete,
  // none is there, or the party is told to `restart`.
  std::shared_ptr<const Checkpoint> interrupted;

  bool resumes() const { return !initial.empty(); }
  // The checkpoint whose weights a run takes unless the other party is an epoch behind; null for fresh weights.
  const Checkpoint* resumed_from() const { return initial.empty() ? nullptr : initial.front().get(); }

  // Takes the party's data, and leaves among `unfinished` what can be continued with them, of no run that is complete:
  // a checkpoint within one is there to start from alone. Errors: InvalidArgument
  // where the checkpoint to start from was trained on others that these do not extend: the same category would be
  // another row of its embedding.
  absl::Status UseData(const Dataset& data, const v1::RunAgreement& agreement);

  // Has every checkpoint from now on say how run `run_id` goes on: its schedule has `seed`. Writes the file with its
  // aligned rows, and removes those of runs without a checkpoint. Nothing without `path`. Errors: see WriteSectionFile.
  absl::Status KeepContinuation(const std::string& run_id, const Digest& seed, const AlignedIds& aligned,
                                int64_t in_flight_batches, const v1::RunAgreement& agreement);

  // Writes `path`; nothing without one. The last three are kept, the earlier ones as PATH.1 and PATH.2: a crash may
  // leave the parties two apart (CheckpointWriter). `place`: run_id, epochs, batches and label_party; the rest are the
  // facts. Without a continuation, the run's aligned rows are removed. Errors: Checkpoint::Write.
  absl::Status Write(const v1::CheckpointHeader& place, const NamedParameters& state, absl::string_view progress,
                     const NamedParameters& kept = {}) const;

  // For a run that resumes from `chosen`, one of `unfinished`: makes it the latest at `path`. Those beyond it go: the
  // ledger no longer has their rows, and as they are written again they would push out the one that both parties have.
  // To be called before anything else is recorded; a crash before or after leaves `chosen` there. Errors: Internal.
  absl::Status GoBackTo(const Checkpoint& chosen) const;

  // Writes into `path`, where its checkpoint is of `run_id`, that nothing is left of that run to be continued. Errors:
  // as Checkpoint::Open and Checkpoint::Write.
  absl::Status MarkComplete(const std::string& run_id) const;
};

// Whether one of `checkpoints` says of `run_id` that nothing is left to be continued.
bool IsComplete(const std::string& run_id, const std::vector<std::shared_ptr<const Checkpoint>>& checkpoints);

// The path that CheckpointPlan::Write was given of which `checkpoint_path` is one of the last three.
std::string PathOfLatest(const std::string& checkpoint_path);

// The runs of the last three checkpoints at `path`. Errors: InvalidArgument where one is no checkpoint, or damaged.
absl::StatusOr<std::vector<std::string>> RunsAt(const std::string& path,
                                                SectionFile::Check check = SectionFile::Check::kDigest);

// The one of this name; null for none.
std::shared_ptr<const Checkpoint> FindCheckpoint(const std::vector<std::shared_ptr<const Checkpoint>>& checkpoints,
                                                 const std::string& name);

// Opens and checks what `party` says to start from, and what is there to be continued. `role`: label_party or
// nonlabel_party. A damaged file is passed over, with a warning, where
// one before it is good. Errors: NotFound; InvalidArgument where no file to start from is good, or one fits another
// role, model, cut or optimiser, with the field that differs; and where `checkpoint_path` lies in no folder.
absl::StatusOr<CheckpointPlan> PlanCheckpoints(const std::string& role, const v1::PartyCommon& party,
                                               const v1::ModelSpec& model, const v1::RunAgreement& agreement);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_CHECKPOINT_CHECKPOINT_PLAN_H_
