#include "deploy/operator/align/counting_channel.h"

#include <utility>

#include "common/operations/run_progress.h"
#include "common/process/steady_time.h"
#include "common/status/status_macros.h"

namespace splitveil {

absl::Status CountingChannel::Send(const v1::AlignmentMessage& message) {
  SPLITVEIL_RETURN_IF_ERROR(channel_->Send(message));
  bytes_sent_ += static_cast<int64_t>(message.ByteSizeLong());
  return absl::OkStatus();
}

absl::StatusOr<v1::AlignmentMessage> CountingChannel::Receive() {
  absl::StatusOr<v1::AlignmentMessage> message = channel_->Receive();
  if (message.ok()) {
    bytes_received_ += static_cast<int64_t>(message->ByteSizeLong());
  }
  return message;
}

absl::StatusOr<FinishedAlignment> AlignCounted(const AlignmentSide& side, const std::string& run_id, RunStatus* status,
                                               const std::function<void()>& heard, AlignmentChannel& channel) {
  AlignmentOptions options = AgreedAlignment(side.agreement.alignment(), run_id);
  AlignmentProgress progress(status);
  options.progress = [&](uint64_t masked, uint64_t total) {
    progress.Report(masked, total);
    heard();
  };
  CountingChannel counted(&channel);
  const SteadyTime begun = SteadyNow();
  absl::StatusOr<AlignedIds> aligned = AlignIds(side.data->ids(), options, counted);
  progress.Finish();
  SPLITVEIL_RETURN_IF_ERROR(aligned.status());
  return FinishedAlignment{*std::move(aligned), SecondsSince(begun), counted.bytes_sent(), counted.bytes_received()};
}

}  // namespace splitveil
