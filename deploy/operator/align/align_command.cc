#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "deploy/operator/align/alignment_host.h"
#include "deploy/operator/commands.h"
#include "deploy/operator/party_config/party_config.h"

#include "common/config/agreement.h"
#include "common/dataset/prepared_data.h"
#include "common/operations/party_program.h"
#include "common/operations/run_facts.h"
#include "common/operations/run_status.h"
#include "common/process/exit_code.h"
#include "common/process/file.h"
#include "common/process/runtime.h"
#include "common/process/steady_time.h"
#include "common/schedule/train_test_split.h"
#include "common/status/status_macros.h"
#include "common/transport/client_call.h"
#include "common/transport/peer_probe.h"
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
        "Open: the peer's run id is not the run name with 8 hexadecimal digits: the peer runs a different program"));
  }
  return response->run_id();
}

// Waits for the label party at `peer_address`, which runs `splitveil align` too, and aligns with it. Every message has
// the agreement's deadline. Errors: Unavailable, DeadlineExceeded; refusals of the label party; those of AlignIds.
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

struct AlignFlags {
  std::string agreement;
  std::string config;
  std::string role;
  std::string out;
};

// One id per line, in the order of the own data: that of the alignment is random.
absl::Status WriteSharedIds(const std::string& path, const FinishedAlignment& finished, const Dataset& data) {
  std::vector<uint32_t> rows = finished.aligned.rows;
  // The alignment's order is random and says nothing; the table's order is easier to compare.
  std::sort(rows.begin(), rows.end());
  std::string text;
  for (const uint32_t row : rows) {
    absl::StrAppend(&text, data.ids()[row], "\n");
  }
  return WriteFile(path, text, kOwnerOnly);  // Who is a customer of both is neither's to publish.
}

absl::StatusOr<ExitCode> Align(const AlignFlags& flags) {
  AlignmentSide side;
  SPLITVEIL_ASSIGN_OR_RETURN(side.agreement, LoadAgreement(flags.agreement));
  SPLITVEIL_ASSIGN_OR_RETURN(const PartyConfig config, LoadPartyConfig(flags.config, flags.role));
  const auto* const label = std::get_if<v1::LabelPartyConfig>(&config);
  const auto* const nonlabel = std::get_if<v1::NonLabelPartyConfig>(&config);
  const v1::PartyCommon& party = label != nullptr ? label->party() : nonlabel->party();
  const PreparedFor owner = label != nullptr ? PreparedFor::kLabelParty : PreparedFor::kNonLabelParty;
  SPLITVEIL_ASSIGN_OR_RETURN(side.identity, LoadPartyIdentity(party.identity()));
  SPLITVEIL_ASSIGN_OR_RETURN(side.data, OpenPreparedData(party, side.agreement, owner));
  // Before any connection: ids cross it only masked, but set sizes do in the clear.
  RequireTls13();
  SPLITVEIL_ASSIGN_OR_RETURN(const FinishedAlignment finished, label != nullptr
                                                                   ? HostAlignment(side, label->listen_address())
                                                                   : CallAlignment(side, nonlabel->peer_address()));
  if (!flags.out.empty()) {
    SPLITVEIL_RETURN_IF_ERROR(WriteSharedIds(flags.out, finished, *side.data));
  }
  std::printf("%s: %lld own rows, %zu shared, %llu rows of the peer, %.1f s, %lld bytes sent, %lld received\n",
              label != nullptr ? kLabelPartyRole : kNonLabelPartyRole, static_cast<long long>(side.data->rows()),
              finished.aligned.rows.size(), static_cast<unsigned long long>(finished.aligned.peer_ids),
              finished.seconds, static_cast<long long>(finished.bytes_sent),
              static_cast<long long>(finished.bytes_received));
  const std::string low = DescribeLowShare({static_cast<int64_t>(finished.aligned.rows.size()), side.data->rows(),
                                            static_cast<int64_t>(finished.aligned.peer_ids)},
                                           side.agreement.alignment().low_shared_share());
  std::printf("%s%s%s", low.empty() ? "" : "WARNING: ", low.c_str(), low.empty() ? "" : "\n");
  return ExitCode::kDone;
}

}  // namespace

void AddAlignCommand(CommandLine& line) {
  const auto flags = std::make_shared<AlignFlags>();
  CLI::App& command = line.AddCommand(
      {"align", "Find the rows that both parties share, without training; both parties run it.",
       "splitveil align --agreement=run.textproto --config=label_party.textproto --out=shared_ids", "Before a run"},
      [flags] { return Align(*flags); });
  AddValue(command, "--agreement=FILE", flags->agreement, "The run agreement, the same file at both parties.")
      ->required();
  AddValue(command, "--config=FILE", flags->config, "This party's private configuration.")->required();
  AddValue(command, "--role=PARTY", flags->role, "Whose configuration it is.")
      ->default_str("inferred from its fields")
      ->check(OneOf({kLabelPartyRole, kNonLabelPartyRole}));
  AddValue(command, "--out=FILE", flags->out,
           "Write this party's shared ids to this file, one per line, readable only by its owner.");
}

}  // namespace splitveil
