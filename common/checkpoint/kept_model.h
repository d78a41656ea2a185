// The weights of the epoch that a run keeps, while later epochs are trained.
#ifndef SPLITVEIL_COMMON_CHECKPOINT_KEPT_MODEL_H_
#define SPLITVEIL_COMMON_CHECKPOINT_KEPT_MODEL_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"

#include "common/checkpoint/checkpoint.h"
#include "common/model/model_state.h"
#include "common/model/parameters.h"

#include "splitveil/v1/split_training.pb.h"

namespace splitveil {

// A party's half of it: both keep the same epoch, as the label party says (LabelPartyConfig.keep). What is exported and
// predicted with is then what is reported. A copy of the model with the state of its training, so that another run can
// start from it. Nothing where the last epoch is kept. Not thread-safe.
class KeptModel {
 public:
  // The model as it is after so many whole epochs, at least 1, in place of what was kept before.
  void Keep(uint32_t epochs, const ModelState& model);
  // The last epoch is kept, whatever was before.
  void Drop();
  // As the label party answers an evaluation after so many epochs. False: it keeps an epoch that it never named.
  bool Take(v1::EvaluateResponse::Kept kept, uint32_t epochs, const ModelState& model);
  // Puts the model back, once all epochs are trained; it is then what is kept. Errors: as ModelState::SetTrainingState.
  absl::Status Restore(ModelState& model);

  // Whole epochs after which it was kept; 0: nothing is.
  uint32_t epochs() const { return epochs_; }
  // What a checkpoint there has to hold beside the model; null: the model is what is kept, or nothing is.
  std::shared_ptr<const NamedParameters> Beside(uint32_t epochs, uint32_t batches) const;
  // As it was when `checkpoint` was written. `model`: resumed from it. Errors: as Checkpoint::Kept.
  absl::Status Resume(const Checkpoint& checkpoint, const ModelState& model);

 private:
  uint32_t epochs_ = 0;
  std::shared_ptr<const NamedParameters> state_;  // Null: none is kept, or the model is it again.
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_CHECKPOINT_KEPT_MODEL_H_
