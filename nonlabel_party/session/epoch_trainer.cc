#include "nonlabel_party/session/epoch_trainer.h"

#include <memory>

#include "common/status/status_macros.h"

namespace splitveil {

absl::Status EpochTrainer::Train(uint32_t epoch) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<TrainingStream> stream, options_.peer->Train());
  options_.recorder->Restart();  // The evaluation between epochs is no part of a step.
  absl::Status status = TrainBatches(epoch, *stream);
  if (status.ok()) {
    return stream->Finish();
  }
  status.Update(options_.step->Record());
  // A broken stream is only the consequence of what the label party decided.
  const absl::Status verdict = absl::IsUnavailable(status) ? stream->Finish() : status;
  return verdict.ok() ? status : verdict;
}

absl::Status EpochTrainer::TrainBatches(uint32_t epoch, TrainingStream& stream) {
  NonLabelTrainingStep& step = *options_.step;
  uint32_t sent = 0;
  auto to_send = static_cast<uint32_t>(options_.batches_per_epoch);
  for (uint32_t received = 0; received < to_send; ++received) {
    if (options_.stop->Asked()) {
      to_send = sent;
    }
    absl::Status status;
    while (status.ok() && sent < to_send && sent - received < options_.in_flight_batches) {
      status = step.Send({epoch, sent++}, stream);
    }
    SPLITVEIL_RETURN_IF_ERROR(status);
    // While the label party computes: the attacks on the latest gradients, and the next rows.
    SPLITVEIL_RETURN_IF_ERROR(step.Attack());
    if (sent < to_send) {
      step.Gather({epoch, sent});
    }
    status = received < sent ? step.Learn({epoch, received}, stream) : absl::OkStatus();
    if (status.ok() && received + 1 >= sent && sent == to_send) {
      status = step.Attack();  // No more is sent.
    }
    SPLITVEIL_RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

}  // namespace splitveil
