#include "deploy/operator/align/alignment_call.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "deploy/operator/align/counting_channel.h"

#include "common/config/agreement.h"
#include "common/operations/run_facts.h"
#include "common/operations/run_status.h"
#include "common/process/exit_code.h"
#include "common/process/runtime.h"
#include "common/process/steady_time.h"
#include "common/status/status_macros.h"
#include "common/transport/client_call.h"
#include "common/transport/peer_probe.h"
#include "common/transport/status_mapper.h"
#include "common/transport/stream_watchdog.h"

#include "splitveil/v1/alignment.grpc.pb.h"
#include "splitveil/v1/split_training.grpc.pb.h"

namespace splitveil {
namespace {

// A watchdog for each direction, as both may wait at the same time.
class CallChannel final : public AlignmentChannel {
 public:
  CallChannel(v1::Alignment::Stub* stub, absl::Duration limit)
      : limit_(limit),
        sending_(limit, [this] { context_.TryCancel(); }),
        receiving_(limit, [this] { context_.TryCancel(); }),
        stream_(stub->Align(&context_)) {}

  absl::Status Send(const v1::AlignmentMessage& message) override {
    sending_.Arm();
    const bool sent = stream_->Write(message);
    sending_.Disarm();
    return sent ? absl::OkStatus() : Gone();
  }

  absl::StatusOr<v1::AlignmentMessage> Receive() override {
    v1::AlignmentMessage message;
    receiving_.Arm();
    const bool received = stream_->Read(&message);
    receiving_.Disarm();
    if (!received) {
      return Gone();
    }
    return message;
  }

  // The label party's verdict.
  absl::Status Finish() {
    stream_->WritesDone();
    receiving_.Arm();
    const grpc::Status status = stream_->Finish();
    receiving_.Disarm();
    return sending_.expired() || receiving_.expired() ? Gone() : FromGrpcStatus(status);
  }

 private:
  absl::Status Gone() const {
    return sending_.expired() || receiving_.expired()
               ? absl::DeadlineExceededError(absl::StrCat("alignment: expected the label party's next message within ",
                                                          absl::FormatDuration(limit_), ", found none"))
               : absl::UnavailableError("alignment: the label party has ended the stream");
  }

  const absl::Duration limit_;
  grpc::ClientContext context_;
  StreamWatchdog sending_, receiving_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::AlignmentMessage, v1::AlignmentMessage>> stream_;
};

// The run id that the label party gives the alignment.
absl::StatusOr<std::string> Open(const AlignmentSide& side, const std::shared_ptr<grpc::Channel>& channel) {
  v1::OpenRequest request;  // Without a commitment to a seed: there is nothing to train.
  *request.mutable_agreement() = side.agreement;
  request.set_agreement_sha256(std::string(AsBytes(AgreementSha256(side.agreement))));
  request.set_version(Version());
  const SteadyTime deadline = SteadyAfter(absl::Seconds(side.agreement.deadlines().step_seconds()));
  const absl::StatusOr<v1::OpenResponse> response =
      CallUnary(v1::SplitTraining::NewStub(channel), &v1::SplitTraining::Stub::Open, request, deadline);
  if (absl::IsInvalidArgument(response.status())) {
    return AsRefusal(absl::FailedPreconditionError(absl::StrCat(
        "expected a label party that aligns only (`splitveil align`), found: ", response.status().message())));
  }
  SPLITVEIL_RETURN_IF_ERROR(response.status());
  if (!IsRunIdOf(side.agreement.run_name(), response->run_id())) {
    return AsRefusal(absl::InvalidArgumentError(
        "Open: expected the run name with 8 hexadecimal digits as the run's id, found another answer"));
  }
  return response->run_id();
}

}  // namespace

absl::StatusOr<FinishedAlignment> CallAlignment(const AlignmentSide& side, const std::string& peer_address) {
  const v1::Deadlines& deadlines = side.agreement.deadlines();
  const std::string& peer_name = side.identity.peer_name;
  SPLITVEIL_RETURN_IF_ERROR(
      WaitForPeer(peer_address, side.identity, peer_name, SteadyAfter(absl::Seconds(deadlines.connect_seconds()))));
  const std::shared_ptr<grpc::Channel> channel =
      TlsChannel(peer_address, side.identity, peer_name, MaxMessageBytes(side.agreement));
  SPLITVEIL_ASSIGN_OR_RETURN(const std::string run_id, Open(side, channel));
  const auto stub = v1::Alignment::NewStub(channel);
  CallChannel stream(stub.get(), absl::Seconds(deadlines.alignment_chunk_seconds()));
  RunStatus status("nonlabel_party");
  absl::StatusOr<FinishedAlignment> finished = AlignCounted(
      side, run_id, &status, [] {}, stream);
  SPLITVEIL_RETURN_IF_ERROR(stream.Finish());  // What AlignIds says is only the consequence of its verdict.
  return finished;
}

}  // namespace splitveil
