#include "deploy/operator/status/status_command.h"

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "deploy/operator/party_config/party_config.h"

#include "common/operations/party_program.h"
#include "common/process/steady_time.h"
#include "common/status/status_macros.h"
#include "common/telemetry/one_line.h"
#include "common/transport/credentials.h"
#include "common/transport/peer_probe.h"
#include "common/transport/unary_call.h"

#include "grpc/health/v1/health.grpc.pb.h"
#include "splitveil/v1/operations.grpc.pb.h"
#include "splitveil/v1/party.pb.h"

namespace splitveil {
namespace {

constexpr int64_t kMaxAnswerBytes = 1 << 16;

// Where a party is asked, and as whom.
struct Target {
  std::string address;
  TlsIdentity identity;
};

// Where a service that listens on `listen_address` answers on its own machine.
absl::StatusOr<std::string> LocalAddress(const std::string& listen_address, const std::string& config_path) {
  if (absl::EndsWith(listen_address, ":0")) {
    return absl::InvalidArgumentError(absl::StrCat(
        config_path, ": listen_address: expected a fixed port (or --address), found \"", listen_address, "\""));
  }
  absl::string_view port = listen_address;
  if (absl::ConsumePrefix(&port, "0.0.0.0:")) {
    return absl::StrCat("127.0.0.1:", port);
  }
  if (absl::ConsumePrefix(&port, "[::]:")) {
    return absl::StrCat("[::1]:", port);
  }
  return listen_address;
}

struct StatusFlags {
  std::string config;
  std::string role;
  std::string address;
  double timeout_seconds = 5;
};

absl::StatusOr<Target> LoadTarget(const StatusFlags& flags) {
  SPLITVEIL_ASSIGN_OR_RETURN(const PartyConfig config, LoadPartyConfig(flags.config, flags.role));
  const auto [party, listen_address] =
      std::visit([](const auto& fields) { return std::pair(fields.party(), fields.listen_address()); }, config);
  Target target;
  SPLITVEIL_ASSIGN_OR_RETURN(target.identity, LoadPartyIdentity(party.identity(), flags.config));
  target.address = flags.address;
  if (target.address.empty()) {
    SPLITVEIL_ASSIGN_OR_RETURN(target.address, LocalAddress(listen_address, flags.config));
  }
  return target;
}

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

absl::Status Ask(const Target& target, absl::Duration limit) {
  const SteadyTime deadline = SteadyAfter(limit);
  RequireTls13();
  // The party's own certificate proves both ends: it asks itself.
  const std::string& own_name = target.identity.own_name;
  SPLITVEIL_RETURN_IF_ERROR(WaitForPeer(target.address, target.identity, own_name, deadline));
  const std::shared_ptr<grpc::Channel> channel = TlsChannel(target.address, target.identity, own_name, kMaxAnswerBytes);
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
  SPLITVEIL_ASSIGN_OR_RETURN(const Target target, LoadTarget(flags));
  SPLITVEIL_RETURN_IF_ERROR(Ask(target, absl::Seconds(flags.timeout_seconds)));
  return ExitCode::kDone;
}

}  // namespace

void AddStatusCommand(CommandLine& line) {
  const auto flags = std::make_shared<StatusFlags>();
  CLI::App& command = line.AddCommand({"status", "Ask a running party what it is doing, with its own certificate.",
                                       "splitveil status --config=label_party.textproto", "During a run"},
                                      [flags] { return Status(*flags); });
  command.add_option("--config", flags->config, "The party's configuration.")->type_name("FILE")->required();
  command.add_option("--role", flags->role, "Whose configuration it is.")
      ->type_name("PARTY")
      ->default_str("what its fields tell")
      ->check(OneOf({kLabelPartyRole, kNonLabelPartyRole}));
  command.add_option("--address", flags->address, "host:port of the party.")
      ->type_name("ADDRESS")
      ->default_str("the configuration's listen_address, on this machine");
  command.add_option("--timeout_seconds", flags->timeout_seconds, "How long to wait for an answer.")
      ->type_name("SECONDS")
      ->check(NumberIn(0.1, 3600));
}

}  // namespace splitveil
