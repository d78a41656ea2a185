#include "common/checkpoint/kept_model.h"

#include <utility>

#include "common/status/status_macros.h"

namespace splitveil {

void KeptModel::Keep(uint32_t epochs, const ModelState& model) {
  state_.reset();  // Before the copy: never two of them.
  state_ = std::make_shared<const NamedParameters>(model.TrainingState());
  epochs_ = epochs;
}

void KeptModel::Drop() {
  state_.reset();
  epochs_ = 0;
}

// The label party alone knows which epoch was the best; this party keeps what it is told, or refuses a word that cannot
// be true.
bool KeptModel::Take(v1::EvaluateResponse::Kept kept, uint32_t epochs, const ModelState& model) {
  switch (kept) {
    case v1::EvaluateResponse::THESE:
      Keep(epochs, model);
      return true;
    case v1::EvaluateResponse::LATEST:
      Drop();
      return true;
    default:
      return kept == v1::EvaluateResponse::EARLIER && epochs_ > 0;
  }
}

absl::Status KeptModel::Restore(ModelState& model) {
  const std::shared_ptr<const NamedParameters> state = std::exchange(state_, nullptr);
  return state == nullptr ? absl::OkStatus() : model.SetTrainingState(*state);
}

// If the epoch just written is the kept one, the file's own state already is that model.
std::shared_ptr<const NamedParameters> KeptModel::Beside(uint32_t epochs, uint32_t batches) const {
  return epochs == epochs_ && batches == 0 ? nullptr : state_;
}

absl::Status KeptModel::Resume(const Checkpoint& checkpoint, const ModelState& model) {
  if (checkpoint.header().kept_epochs() == 0) {
    Drop();
    // See Beside: the kept model was the checkpoint's own.
  } else if (checkpoint.header().kept().empty()) {
    Keep(checkpoint.header().kept_epochs(), model);
  } else {
    SPLITVEIL_ASSIGN_OR_RETURN(NamedParameters kept, checkpoint.Kept());
    state_ = std::make_shared<const NamedParameters>(std::move(kept));
    epochs_ = checkpoint.header().kept_epochs();
  }
  return absl::OkStatus();
}

}  // namespace splitveil
