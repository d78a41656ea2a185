// A party's checkpoints of one run: what it resumes from, and what it leaves.
#ifndef SPLITVEIL_COMMON_CHECKPOINT_CHECKPOINT_PLAN_H_
#define SPLITVEIL_COMMON_CHECKPOINT_CHECKPOINT_PLAN_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/checkpoint/checkpoint.h"
#include "common/dataset/dataset.h"

#include "splitveil/v1/agreement.pb.h"
#include "splitveil/v1/party.pb.h"

namespace splitveil {

struct CheckpointPlan {
  // What the checkpoints of this run say, but for run, epochs and the label party's state.
  v1::CheckpointHeader facts;
  std::string path;  // Where they go; empty: nowhere.
  // To resume from: `initial_checkpoint`, then the one before it where that was kept. Empty: fresh weights.
  std::vector<std::shared_ptr<const Checkpoint>> initial;

  bool resumes() const { return !initial.empty(); }
  // The checkpoint that a run resumes unless the other party is one epoch behind; null for fresh weights.
  const Checkpoint* resumed_from() const { return initial.empty() ? nullptr : initial.front().get(); }
  // The one of this name; null for none.
  std::shared_ptr<const Checkpoint> Find(const std::string& name) const;

  // Takes the party's data. Errors: InvalidArgument where the checkpoint to resume from was trained on others that
  // these do not extend: the same category would be another row of its embedding.
  absl::Status UseData(const Dataset& data);

  // Writes the checkpoint of `epochs` epochs of a run; nothing without a path. With `keep_previous` the one before
  // stays as PATH.previous: a crash may leave the parties one epoch apart, and this one ahead. Errors:
  // Checkpoint::Write.
  absl::Status Write(const std::string& run_id, uint32_t epochs, const v1::LabelPartyState* label_state,
                     const NamedParameters& state, bool keep_previous) const;
};

// Opens and checks what `party` says to resume from. `role`: label_party or nonlabel_party; paths are relative to
// the file `config_path`. Errors: NotFound; InvalidArgument where the file is damaged or fits another role, model, cut
// or optimiser, with the field that differs; and where `checkpoint_path` lies in no folder.
absl::StatusOr<CheckpointPlan> PlanCheckpoints(const std::string& role, const std::string& config_path,
                                               const v1::PartyCommon& party, const v1::ModelSpec& model,
                                               const v1::RunAgreement& agreement);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_CHECKPOINT_CHECKPOINT_PLAN_H_
