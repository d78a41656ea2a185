#include "nonlabel_party/session/nonlabel_training_step.h"

#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/process/exit_code.h"
#include "common/status/status_context.h"
#include "common/status/status_macros.h"
#include "nonlabel_party/session/activation_account.h"

namespace splitveil {
namespace {

// A refusal of what the label party has sent.
absl::Status OfPeer(const absl::Status& status) {
  return status.ok() ? status : AsRefusal(Within("from the label party", status));
}

}  // namespace

void NonLabelTrainingStep::Gather(const BatchAddress& address) {
  if (gathered_.has_value() && gathered_->batch == address.batch) {
    return;
  }
  const absl::Span<const uint32_t> rows = parts_.schedule->BatchRows(address.epoch, address.batch);
  const auto gather = [table = parts_.features, parts = Slices(address).Computed(parts_.model->needs_whole_batch()),
                       positions = std::vector<uint32_t>(rows.begin(), rows.end())] {
    std::vector<FeatureBatch> features;
    for (const RowRange& part : parts) {
      features.push_back(table->Gather(absl::MakeConstSpan(positions).subspan(part.first, part.rows)));
    }
    return features;
  };
  // While the last batch is on its way: reading rows from the disk must not cost a step.
  gathered_ = {address.batch, std::async(gather)};
}

absl::Status NonLabelTrainingStep::Send(const BatchAddress& address, TrainingStream& stream) {
  Gather(address);
  // Each part of the rows is computed by itself if the model allows it, so that the first slice is on its way early.
  std::vector<FeatureBatch> features = gathered_->features.get();
  gathered_.reset();
  parts_.recorder->Lap(&StepTimeRow::data);
  const BatchSlices slices = Slices(address);
  SentBatch& sent = in_flight_.emplace_back();
  // A copy, since the model may free its own before the gradients come.
  if (parts_.attacks->needs_activations()) {
    sent.activations = Matrix::ToOverwrite(slices.rows(), wire_.cut_width);
  }
  auto next = features.begin();
  for (const RowRange& rows : slices.Computed(parts_.model->needs_whole_batch())) {
    parts_.model->SetPosition(
        ActivationAccount::PositionOf(ActivationAccount::Stream::kTraining, address.epoch, address.batch));
    const absl::StatusOr<ConstMatrixView> activations = parts_.model->Forward(std::move(*next++));
    parts_.recorder->Lap(&StepTimeRow::forward);
    SPLITVEIL_RETURN_IF_ERROR(activations.status());
    if (parts_.attacks->needs_activations()) {
      sent.activations.SetBlock(rows.first, *activations);
    }
    // With an account a batch is computed whole (ProtectedBottomModel::needs_whole_batch), so this is once a batch.
    if (parts_.account != nullptr) {
      SPLITVEIL_RETURN_IF_ERROR(
          parts_.account->Send(ActivationAccount::Stream::kTraining, address.epoch, address.batch, *activations));
    }
    SPLITVEIL_RETURN_IF_ERROR(SendRows(address, rows, *activations, stream));
  }
  sent.sent_at = SteadyNow();
  return absl::OkStatus();
}

absl::Status NonLabelTrainingStep::SendRows(const BatchAddress& address, const RowRange& rows,
                                            ConstMatrixView activations, TrainingStream& stream) {
  for (const RowRange& slice : Slices(address).Within(rows)) {
    SPLITVEIL_ASSIGN_OR_RETURN(
        v1::CutActivations message,
        ActivationsMessage(wire_.run_id, address.epoch, address.batch,
                           activations.block(slice.first - rows.first, slice.rows), wire_.dtype));
    message.set_first_row(static_cast<uint32_t>(slice.first));
    parts_.recorder->Lap(&StepTimeRow::serialise);
    in_flight_.back().bytes += static_cast<int64_t>(message.ByteSizeLong());
    // The time goes to the step also if the stream is broken.
    const absl::Status sent = stream.Send(message);
    parts_.recorder->Lap(&StepTimeRow::wire);
    SPLITVEIL_RETURN_IF_ERROR(sent);
  }
  return absl::OkStatus();
}

absl::Status NonLabelTrainingStep::Learn(const BatchAddress& address, TrainingStream& stream) {
  const BatchSlices slices = Slices(address);
  const int64_t rows = slices.rows();
  parts_.recorder->Begin(address.epoch, address.batch, rows, in_flight_.front().bytes);
  received_.step = parts_.recorder->step();
  // Gradients belong to the examples of the schedule, by position: no message carries an id.
  received_.positions = parts_.schedule->BatchRows(address.epoch, address.batch);
  // Refuses rows of other shapes, other numbers, or out of order, before the model sees any of them.
  SliceAssembler gradients({"gradients", wire_.dtype, wire_.cut_width}, slices, parts_.model->needs_whole_batch());
  // Slice by slice, so that this party back-propagates one while the label party computes the next.
  for (const RowRange& slice : slices.all()) {
    SPLITVEIL_ASSIGN_OR_RETURN(received_.message, Receive(address, slice.first, stream));
    const v1::CutGradients& message = received_.message;
    SPLITVEIL_RETURN_IF_ERROR(parts_.protocol->Take(AnswerProtocol::Classify(message, slice.end() == rows)));
    // The disclosure is stated once for a batch, in its last answer.
    if (slice.end() == rows || message.frozen()) {
      parts_.recorder->AddTurn(SecondsSince(in_flight_.front().sent_at));
      SPLITVEIL_RETURN_IF_ERROR(parts_.attacks->TakeDisclosure(message));
    }
    if (message.frozen()) {
      return StayFrozen(slices);
    }
    const absl::Status decoded = gradients.Add(slice.first, message.gradients());
    parts_.recorder->Lap(&StepTimeRow::serialise);
    SPLITVEIL_RETURN_IF_ERROR(OfPeer(decoded));
    SPLITVEIL_RETURN_IF_ERROR(Backpropagate(gradients));
  }
  received_.activations = std::move(in_flight_.front().activations);
  in_flight_.pop_front();
  // The hint goes back through the parameters of its Forward: before the update replaces them.
  SPLITVEIL_RETURN_IF_ERROR(parts_.attacks->TakeHint(received_));
  parts_.recorder->Lap(&StepTimeRow::attacks);
  const absl::Status updated = parts_.model->Update();
  parts_.recorder->Lap(&StepTimeRow::update);
  SPLITVEIL_RETURN_IF_ERROR(updated);
  parts_.recorder->SetProtection(parts_.model->latest());
  parts_.recorder->Learnt();
  return absl::OkStatus();
}

absl::StatusOr<v1::CutGradients> NonLabelTrainingStep::Receive(const BatchAddress& address, int64_t first_row,
                                                               TrainingStream& stream) {
  absl::StatusOr<v1::CutGradients> message = stream.Receive();
  parts_.recorder->Lap(&StepTimeRow::wait);
  SPLITVEIL_RETURN_IF_ERROR(message.status());
  // In order, one batch after the other: an answer for a different batch would teach the wrong rows.
  if (message->epoch() != address.epoch || message->batch() != address.batch || message->first_row() != first_row) {
    return AsRefusal(absl::InvalidArgumentError(absl::StrCat(
        "gradients: expected epoch ", address.epoch, " batch ", address.batch, " from row ", first_row,
        ", found epoch ", message->epoch(), " batch ", message->batch(), " from row ", message->first_row())));
  }
  parts_.recorder->AddReceived(static_cast<int64_t>(message->ByteSizeLong()));
  if (parts_.account != nullptr) {
    parts_.account->Received(*message);
  }
  return message;
}

absl::Status NonLabelTrainingStep::Backpropagate(SliceAssembler& gradients) {
  const absl::Span<const std::string> layers = parts_.attacks->Layers(received_.step);
  while (const std::optional<RowRange> rows = gradients.NextReady()) {
    const absl::StatusOr<std::vector<ConstMatrixView>> at_layers =
        parts_.model->Backward(gradients.block(*rows), layers);
    parts_.recorder->Lap(&StepTimeRow::backward);
    SPLITVEIL_RETURN_IF_ERROR(at_layers.status());
    for (size_t i = 0; i < layers.size(); ++i) {
      // The widths of the layers are known once the first rows came back.
      if (rows->first == 0) {
        received_.gradients.push_back(
            {layers[i], Matrix::ToOverwrite(gradients.slices().rows(), (*at_layers)[i].cols())});
      }
      received_.gradients[i].gradient.SetBlock(rows->first, (*at_layers)[i]);
    }
    parts_.recorder->Lap(&StepTimeRow::attacks);
  }
  return absl::OkStatus();
}

absl::Status NonLabelTrainingStep::StayFrozen(const BatchSlices& slices) {
  if (!frozen_) {
    frozen_ = true;
    // Once: every later answer is frozen, too.
    SPLITVEIL_RETURN_IF_ERROR(parts_.recorder->RecordFrozen());
  }
  // The model keeps a forward pass for each part that it computed: no gradient comes for any of them.
  for (size_t i = 0; i < slices.Computed(parts_.model->needs_whole_batch()).size(); ++i) {
    SPLITVEIL_RETURN_IF_ERROR(parts_.model->Discard());
  }
  in_flight_.pop_front();
  parts_.recorder->SetProtection(parts_.model->latest());
  parts_.recorder->Learnt();
  return absl::OkStatus();
}

absl::Status NonLabelTrainingStep::Attack() {
  if (!parts_.recorder->due()) {
    return absl::OkStatus();
  }
  absl::Status status = parts_.attacks->Report(received_);
  // Taken once: attacks that accumulate must not count a batch twice.
  received_ = ReceivedBatch();
  parts_.recorder->Lap(&StepTimeRow::attacks);
  // The wait for the AUCs is the label party's time, not this party's attacks.
  parts_.recorder->Move(parts_.attacks->waited_seconds(), &StepTimeRow::attacks, &StepTimeRow::wait);
  status.Update(Record());
  return status;
}

}  // namespace splitveil
