#include "deploy/operator/status/status_command.h"

#include <cstdio>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <memory>
#include <string>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "deploy/operator/party_config/party_config.h"

#include "common/operations/operator_server.h"
#include "common/operations/party_program.h"
#include "common/process/steady_time.h"
#include "common/status/status_macros.h"
#include "common/telemetry/one_line.h"
#include "common/transport/grpc_deadline.h"
#include "common/transport/unary_call.h"

#include "grpc/health/v1/health.grpc.pb.h"
#include "splitveil/v1/operations.grpc.pb.h"
#include "splitveil/v1/party.pb.h"

namespace splitveil {
namespace {

constexpr int kMaxAnswerBytes = 1 << 16;

struct StatusFlags {
  std::string config;
  std::string role;
  double timeout_seconds = 5;
};

std::string Describe(const v1::GetStatusResponse& status, grpc::health::v1::HealthCheckResponse::ServingStatus health) {
  std::string text =
      absl::StrCat(status.role(), " ", status.version(), ": ",
                   grpc::health::v1::HealthCheckResponse::ServingStatus_Name(health), ", ", status.phase());
  if (!status.run_id().empty()) {
    absl::StrAppend(&text, ", run ", status.run_id());
    if (status.phase() == "aligning") {
      if (status.ids_to_mask() > 0) {  // Known once both parties have told how many ids they hold.
        absl::StrAppend(&text, ", ", status.masked_ids(), " of ", status.ids_to_mask(),
                        " ids masked, own and the peer's");
      }
    } else {
      absl::StrAppend(&text, ", epoch ", status.epoch() + 1, ", step ", status.step(), "/", status.total_steps(), ", ",
                      status.aligned_examples(), " aligned examples");
    }
    if (status.bound_exceeded() > 0) {
      absl::StrAppend(&text, ", BOUND EXCEEDED ", status.bound_exceeded(), " times");
    }
    if (status.role() == kLabelPartyRole && status.step() > 0) {
      absl::StrAppendFormat(&text, ", loss %.4f", status.loss());
    }
  }
  return OneLine(text);
}

absl::Status Ask(const std::string& socket, absl::Duration limit) {
  const SteadyTime deadline = SteadyAfter(limit);
  SPLITVEIL_ASSIGN_OR_RETURN(const SocketAddress address, SocketAddress::Of(socket));
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxAnswerBytes);
  const std::shared_ptr<grpc::Channel> channel =
      grpc::CreateCustomChannel(address.grpc_name(), grpc::InsecureChannelCredentials(), arguments);
  if (!channel->WaitForConnected(GrpcDeadline(deadline))) {
    return absl::UnavailableError(
        absl::StrCat(socket, ": expected a running party, but no party is answering on this socket"));
  }
  const auto operations = v1::Operations::NewStub(channel);
  const auto health_service = grpc::health::v1::Health::NewStub(channel);
  SPLITVEIL_ASSIGN_OR_RETURN(const v1::GetStatusResponse status,
                             CallUnary(operations, &v1::Operations::Stub::GetStatus, {}, deadline));
  SPLITVEIL_ASSIGN_OR_RETURN(const grpc::health::v1::HealthCheckResponse health,
                             CallUnary(health_service, &grpc::health::v1::Health::Stub::Check, {}, deadline));
  std::printf("%s\n", Describe(status, health.status()).c_str());
  return absl::OkStatus();
}

absl::StatusOr<ExitCode> Status(const StatusFlags& flags) {
  SPLITVEIL_ASSIGN_OR_RETURN(const PartyConfig config, LoadPartyConfig(flags.config, flags.role));
  const std::string socket =
      std::visit([&](const auto& fields) { return StatusSocketPath(fields.party(), flags.config); }, config);
  SPLITVEIL_RETURN_IF_ERROR(Ask(socket, absl::Seconds(flags.timeout_seconds)));
  return ExitCode::kDone;
}

}  // namespace

void AddStatusCommand(CommandLine& line) {
  const auto flags = std::make_shared<StatusFlags>();
  CLI::App& command = line.AddCommand({"status", "Ask a running party on this machine what it is doing.",
                                       "splitveil status --config=label_party.textproto", "During a run"},
                                      [flags] { return Status(*flags); });
  command.add_option("--config", flags->config, "The party's configuration.")->type_name("FILE")->required();
  command.add_option("--role", flags->role, "Whose configuration it is.")
      ->type_name("PARTY")
      ->default_str("inferred from its fields")
      ->check(OneOf({kLabelPartyRole, kNonLabelPartyRole}));
  command.add_option("--timeout_seconds", flags->timeout_seconds, "How long to wait for an answer.")
      ->type_name("SECONDS")
      ->check(NumberIn(0.1, 3600));
}

}  // namespace splitveil
