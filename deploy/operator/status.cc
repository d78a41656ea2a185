#include <chrono>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "deploy/operator/command.h"

#include "common/config/text_config.h"
#include "common/operations/party_program.h"
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

constexpr char kLabelParty[] = "label_party";
constexpr char kNonLabelParty[] = "nonlabel_party";
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

template <typename Config>
absl::StatusOr<Target> LoadTarget(const std::string& config_path, const std::string& address) {
  Config config;
  SPLITVEIL_RETURN_IF_ERROR(LoadTextConfig(config_path, config));
  SPLITVEIL_ASSIGN_OR_RETURN(TlsIdentity identity, LoadPartyIdentity(config.party().identity(), config_path));
  absl::StatusOr<std::string> where = address;
  if (address.empty()) {
    where = LocalAddress(config.listen_address(), config_path);
  }
  if (!where.ok()) {
    return where.status();
  }
  return Target{*std::move(where), std::move(identity)};
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
    if (status.role() == kLabelParty && status.step() > 0) {
      absl::StrAppendFormat(&text, ", loss %.4f", status.loss());
    }
  }
  return OneLine(text);
}

absl::Status Ask(const Target& target, absl::Duration limit) {
  const absl::Time deadline = absl::Now() + limit;
  RequireTls13();
  // The party's own certificate proves both ends: it asks itself.
  const std::string& own_name = target.identity.own_name;
  SPLITVEIL_RETURN_IF_ERROR(WaitForPeer(target.address, target.identity, own_name, deadline));
  const std::shared_ptr<grpc::Channel> channel = TlsChannel(target.address, target.identity, own_name, kMaxAnswerBytes);
  const auto operations = v1::Operations::NewStub(channel);
  const auto health_service = grpc::health::v1::Health::NewStub(channel);
  const auto status = CallUnary(operations, &v1::Operations::Stub::GetStatus, {}, deadline);
  if (!status.ok()) {
    return status.status();
  }
  const auto health = CallUnary(health_service, &grpc::health::v1::Health::Stub::Check, {}, deadline);
  if (!health.ok()) {
    return health.status();
  }
  std::printf("%s\n", Describe(*status, health->status()).c_str());
  return absl::OkStatus();
}

absl::Status Status(const Flags& flags) {
  const std::string role = flags.Get("role");
  if (role != kLabelParty && role != kNonLabelParty) {
    return absl::InvalidArgumentError(
        absl::StrCat("command line: --role: expected ", kLabelParty, " or ", kNonLabelParty, ", found \"", role, "\""));
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const double limit_seconds, flags.GetDouble("timeout_seconds", 0.1, 3600));
  SPLITVEIL_ASSIGN_OR_RETURN(const Target target,
                             role == kLabelParty
                                 ? LoadTarget<v1::LabelPartyConfig>(flags.Get("config"), flags.Get("address"))
                                 : LoadTarget<v1::NonLabelPartyConfig>(flags.Get("config"), flags.Get("address")));
  return Ask(target, absl::Seconds(limit_seconds));
}

}  // namespace

Command StatusCommand() {
  return {"status",
          "Ask a party, with its own certificate, what it is doing.",
          {{"config", "", "The party's configuration.", /*required=*/true},
           {"role", "", "label_party or nonlabel_party.", /*required=*/true},
           {"address", "", "host:port; where absent, the configuration's listen_address on this machine."},
           {"timeout_seconds", "5", "How long to wait for the party."}},
          Status};
}

}  // namespace splitveil
