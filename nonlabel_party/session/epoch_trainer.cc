#include "nonlabel_party/session/epoch_trainer.h"

#include <memory>

#include "common/schedule/schedule.h"
#include "common/status/status_macros.h"

namespace splitveil {

absl::Status EpochTrainer::Train(uint32_t epoch, uint32_t first) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<TrainingStream> stream, options_.peer->Train());
  options_.recorder->Restart();  // The evaluation between epochs is no part of a step.
  absl::Status status = TrainEpoch(epoch, first, *stream);
  if (status.ok()) {
    return stream->Finish();
  }
  status.Update(options_.step->Record());
  // A broken stream is only the consequence of what the label party decided.
  const absl::Status verdict = absl::IsUnavailable(status) ? stream->Finish() : status;
  return verdict.ok() ? status : verdict;
}

uint32_t EpochTrainer::NextPlace(uint32_t epoch, uint32_t batch) const {
  const auto end = static_cast<uint32_t>(options_.batches_per_epoch);
  do {
    ++batch;
  } while (batch < end && !IsCheckpointStep(epoch * options_.batches_per_epoch + batch, options_.checkpoint_steps));
  return batch;
}

absl::Status EpochTrainer::TrainEpoch(uint32_t epoch, uint32_t first, TrainingStream& stream) {
  while (first < options_.batches_per_epoch && !options_.stop->seen()) {
    const uint32_t end = NextPlace(epoch, first);
    SPLITVEIL_RETURN_IF_ERROR(TrainBatches(epoch, first, end, stream));
    if (end < options_.batches_per_epoch && !options_.stop->seen()) {
      SPLITVEIL_RETURN_IF_ERROR(options_.write_checkpoint(epoch, end));
    }
    first = end;
  }
  return absl::OkStatus();
}

absl::Status EpochTrainer::TrainBatches(uint32_t epoch, uint32_t first, uint32_t end, TrainingStream& stream) {
  NonLabelTrainingStep& step = *options_.step;
  uint32_t sent = first;
  uint32_t to_send = end;
  for (uint32_t received = first; received < to_send; ++received) {
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
