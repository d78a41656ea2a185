#include "label_party/serving/serve.h"

#include <unistd.h>

#include <filesystem>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/security/server_credentials.h>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "common/config/agreement.h"
#include "common/config/text_config.h"
#include "common/model/torch_settings.h"
#include "common/monitoring/monitoring_server.h"
#include "common/operations/dry_run.h"
#include "common/operations/operator_server.h"
#include "common/process/file.h"
#include "common/process/runtime.h"
#include "common/status/status_context.h"
#include "common/status/status_macros.h"
#include "common/telemetry/log.h"
#include "common/transport/client_call.h"
#include "common/transport/host_port.h"
#include "common/transport/server.h"
#include "label_party/serving/grpc_inference.h"
#include "label_party/serving/open_inference.h"
#include "label_party/serving/rest_inference.h"

namespace splitveil {
namespace {

// Requests at a time, of REST or at a socket; StartServer has as many.
constexpr int kThreads = 2 * Callers::kMostUnderWay;
constexpr int64_t kBytesOfMessage = int64_t{64} << 10, kBytesOfRow = 1024;
// Of a request beside its rows: names, shapes and parameters. Of a row: its id and columns.
constexpr int64_t kFieldsOfMessage = 1024, kFieldsOfRow = 8;
// Of connections and small messages; the largest message comes on top, once for each thread.
constexpr int64_t kBytesOfConnections = int64_t{64} << 20;
constexpr absl::Duration kStrangerLimit = absl::Seconds(2);
constexpr absl::Duration kDrainLimit = absl::Seconds(10);
constexpr absl::Duration kPoll = absl::Milliseconds(20);

// The path after "unix:"; empty: host:port.
std::string SocketOf(const HttpPlace& place) {
  absl::string_view path = place.listen_address;
  return absl::ConsumePrefix(&path, "unix:") ? std::string(path) : "";
}

// Where gRPC or REST answers. A socket's path is relative to the configuration file `config_path`, as other paths in
// it.
absl::StatusOr<HttpPlace> PlaceOf(const char* field, const std::string& address, const v1::ServingConfig& config,
                                  const std::string& config_path) {
  HttpPlace place;
  place.field = field;
  place.listen_address = address;
  place.threads = kThreads;
  place.gives_way = false;
  place.request_limit = kStrangerLimit;
  if (const std::string path = SocketOf(place); !path.empty()) {
    place.listen_address = absl::StrCat("unix:", (std::filesystem::path(config_path).parent_path() / path).string());
    return place;
  }
  SPLITVEIL_ASSIGN_OR_RETURN(place.is_loopback, IsLoopbackAddress(field, address));
  return config.callers_size() > 0
             ? absl::StatusOr<HttpPlace>(place)
             : absl::InvalidArgumentError(absl::StrCat("callers: nobody could ask at ", field, " ", address,
                                                       ": add a caller, or use unix:PATH"));
}

struct Plan {
  v1::ServingConfig config;
  ServedVersion::Training training;
  std::unique_ptr<Callers> callers;
  std::optional<HttpPlace> grpc, rest;
  std::optional<MonitoringPlan> monitoring;
  std::string caller_authority_pem;
};

absl::Status PlanPlaces(const std::string& config_path, Plan& plan) {
  const v1::ServingConfig& config = plan.config;
  if (config.listen_address().empty() && config.rest_address().empty()) {
    return absl::InvalidArgumentError("listen_address: set it, or rest_address, or both");
  }
  for (const auto& [field, address, place] : {std::tuple("listen_address", config.listen_address(), &plan.grpc),
                                              {"rest_address", config.rest_address(), &plan.rest}}) {
    if (address.empty()) {
      continue;
    }
    SPLITVEIL_ASSIGN_OR_RETURN(*place, PlaceOf(field, address, config, config_path));
    if (!(*place)->is_loopback) {
      SPLITVEIL_ASSIGN_OR_RETURN((*place)->identity, LoadPartyIdentity(plan.training.config.party().identity()));
    }
  }
  if (!config.caller_authority_path().empty()) {
    SPLITVEIL_ASSIGN_OR_RETURN(plan.caller_authority_pem, ReadFile(config.caller_authority_path()));
  }
  return absl::OkStatus();
}

absl::Status PlanLive(Plan& plan) {
  const v1::ServingConfig& config = plan.config;
  if (!config.has_live()) {
    return absl::OkStatus();
  }
  SPLITVEIL_RETURN_IF_ERROR(ParseHostPort("live.peer_address", config.live().peer_address()).status());
  SPLITVEIL_ASSIGN_OR_RETURN(const TlsIdentity identity, LoadPartyIdentity(plan.training.config.party().identity()));
  plan.training.live =
      std::make_shared<LivePeer>(config.live(), plan.training.agreement, identity, config.max_batch_rows());
  return absl::OkStatus();
}

absl::Status PlanPage(const std::string& config_path, Plan& plan) {
  if (!plan.config.has_monitoring()) {
    return absl::OkStatus();
  }
  v1::PartyCommon page;
  *page.mutable_monitoring() = plan.config.monitoring();
  SPLITVEIL_ASSIGN_OR_RETURN(const TlsIdentity identity, LoadPartyIdentity(plan.training.config.party().identity()));
  SPLITVEIL_ASSIGN_OR_RETURN(plan.monitoring, PlanMonitoring(page, config_path, identity, "monitoring"));
  // Else every user of the machine could read how predictions are distributed, and how often each version is asked.
  const std::optional<Digest>& token = plan.monitoring->token_sha256;
  if (token.has_value() && !plan.callers->IsOutsideToken(*token)) {
    return absl::OkStatus();
  }
  return Within(config_path, absl::InvalidArgumentError(absl::StrCat(
                                 "monitoring.token_path: expected a token file", token.has_value() ? " of its own" : "",
                                 ", found ", token.has_value() ? "an outside caller's token" : "none",
                                 ": only those who may see predictions may read the page")));
}

absl::StatusOr<Plan> PlanServing(const std::string& config_path) {
  Plan plan;
  SPLITVEIL_RETURN_IF_ERROR(LoadTextConfig(config_path, plan.config));
  SPLITVEIL_ASSIGN_OR_RETURN(plan.training.agreement, LoadAgreement(plan.config.agreement_path()));
  SPLITVEIL_RETURN_IF_ERROR(LoadTextConfig(plan.config.config_path(), plan.training.config));
  plan.training.answers_unproved = plan.config.has_unproved_answers();
  plan.training.drifts = std::make_shared<DriftWatches>();
  absl::Status status = PlanPlaces(config_path, plan);
  status.Update(PlanLive(plan));
  if (status.ok()) {
    absl::StatusOr<std::unique_ptr<Callers>> callers = Callers::Create(plan.config, plan.training.config.protection());
    status = callers.status();
    plan.callers = callers.ok() ? *std::move(callers) : nullptr;
  }
  SPLITVEIL_RETURN_IF_ERROR(Within(config_path, status));
  SPLITVEIL_RETURN_IF_ERROR(PlanPage(config_path, plan));
  return plan;
}

std::shared_ptr<grpc::ServerCredentials> CredentialsOf(const Plan& plan) {
  if (plan.grpc->is_loopback) {
    return grpc::InsecureServerCredentials();
  }
  // A caller with a token needs no certificate; one that is shown must be of the authority.
  grpc::SslServerCredentialsOptions options(plan.caller_authority_pem.empty()
                                                ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                                                : GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = plan.caller_authority_pem;
  options.pem_key_cert_pairs.push_back({plan.grpc->identity.private_key_pem, plan.grpc->identity.certificate_pem});
  return grpc::SslServerCredentials(options);
}

// gRPC and REST, or one of them. Destroyed, they end.
struct Servers {
  std::unique_ptr<GrpcInference> service;
  std::optional<OperatorServer> at_socket;
  RunningServer at_port;
  std::unique_ptr<RestInference> rest;
  std::string rest_socket;
  std::optional<bool> ready_said;

  grpc::Server* grpc() const { return at_socket.has_value() ? at_socket->server.get() : at_port.server.get(); }

  void EndSlowCalls() const {
    if (service != nullptr) {
      service->EndSlowCalls();
    }
  }

  // By grpc.health.v1, which tells each client that watches, also what it knows already.
  void SayReady(bool ready) {
    if (grpc() != nullptr && ready_said != ready) {
      grpc()->GetHealthCheckService()->SetServingStatus(ready);
    }
    ready_said = ready;
  }

  ~Servers() {
    rest.reset();
    if (!rest_socket.empty()) {
      (void)unlink(rest_socket.c_str());
    }
  }
};

std::string WhereOf(const std::string& socket, int port) {
  return socket.empty() ? absl::StrCat("on port ", port) : absl::StrCat("at unix:", socket);
}

absl::Status StartServers(const Plan& plan, OpenInference* protocol, Servers& servers) {
  const std::string& name = plan.training.agreement.run_name();
  const int64_t max_bytes = kBytesOfMessage + plan.config.max_batch_rows() * kBytesOfRow;
  if (plan.grpc.has_value()) {
    const std::string& address = plan.grpc->listen_address;
    const std::string socket = SocketOf(*plan.grpc);
    GrpcInference::Options options;
    options.by_socket = !socket.empty();
    options.max_fields = kFieldsOfMessage + kFieldsOfRow * plan.config.max_batch_rows();
    options.stranger_limit = kStrangerLimit;
    servers.service = std::make_unique<GrpcInference>(protocol, options);
    if (!socket.empty()) {
      SPLITVEIL_ASSIGN_OR_RETURN(servers.at_socket,
                                 StartSocketServer({plan.grpc->field, socket, kThreads, max_bytes},
                                                   {servers.service.get(), servers.service->reflection()}));
    } else {
      SPLITVEIL_ASSIGN_OR_RETURN(
          servers.at_port,
          StartServer({address,
                       max_bytes,
                       {servers.service.get(), servers.service->reflection()},
                       [service = servers.service.get()](const auto& call) { return service->IsCallers(call); },
                       kBytesOfConnections + kThreads * max_bytes},
                      CredentialsOf(plan)));
    }
    LogInfo("serves ", name, " by gRPC ", WhereOf(socket, servers.at_port.port));
  }
  if (plan.rest.has_value()) {
    // In JSON each row may be a list of its own.
    const int64_t max_values = kFieldsOfMessage + 2 * kFieldsOfRow * plan.config.max_batch_rows();
    SPLITVEIL_ASSIGN_OR_RETURN(servers.rest,
                               RestInference::Start(*plan.rest, static_cast<size_t>(max_bytes), max_values, protocol));
    servers.rest_socket = SocketOf(*plan.rest);
    LogInfo("serves ", name, " by REST ", WhereOf(servers.rest_socket, servers.rest->port()));
  }
  return absl::OkStatus();
}

// Not ready, then answers what has come.
void Drain(OpenInference& protocol, Servers& servers) {
  protocol.StopAnswering();
  servers.SayReady(false);
  const SteadyTime limit = SteadyAfter(kDrainLimit);
  const auto under_way = [&] {
    return (servers.service != nullptr && servers.service->under_way() > 0) ||
           (servers.rest != nullptr && servers.rest->under_way() > 0);
  };
  while (under_way() && SteadyNow() < limit) {
    absl::SleepFor(kPoll);
  }
  if (servers.at_port.listener != nullptr) {
    absl::SleepFor(kPoll);  // The end of the last answer is under way.
    servers.at_port.listener->EndAll();
  }
  if (servers.grpc() != nullptr) {
    servers.grpc()->Shutdown(GrpcDeadline(limit));
  }
  LogInfo(under_way() ? "stopped; requests under way were not answered in time" : "stopped; what had come is answered");
}

}  // namespace

absl::Status Serve(const std::string& config_path) {
  SPLITVEIL_ASSIGN_OR_RETURN(const Plan plan, PlanServing(config_path));
  ReuseTensorMemory();
  SetComputeThreads(plan.training.config.party().compute_threads());
  ServingMetrics metrics;
  SPLITVEIL_ASSIGN_OR_RETURN(
      const std::unique_ptr<RequestQueue> queue,
      RequestQueue::Create(
          {plan.config.max_batch_rows(), absl::Milliseconds(plan.config.max_delay_ms()), plan.config.max_queued_rows()},
          &metrics));
  const ServedVersions versions(VersionsIn(plan.training, plan.config.versions_path()));
  OpenInference::Options options;
  options.model_name = plan.training.agreement.run_name();
  if (plan.config.has_unproved_answers()) {
    options.unproved = plan.config.unproved_answers();
    options.ledger_path = plan.training.config.party().ledger_path();
  }
  options.live = plan.training.live == nullptr ? nullptr : &plan.training.live->metrics();
  OpenInference protocol(std::move(options), &versions, queue.get(), plan.callers.get(), &metrics);
  Servers servers;
  SPLITVEIL_RETURN_IF_ERROR(StartServers(plan, &protocol, servers));
  RunStatus status("label_party");
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<MonitoringServer> page,
                             StartServingPage(plan.monitoring, plan.training.agreement.run_name(), status,
                                              [&protocol] { return protocol.AllMetrics(); }));
  if (versions.Numbers().empty()) {
    LogWarning("no version can be used yet: splitveil predict --store=", plan.config.versions_path(),
               " adds one; one that does not fit is named above");
  }
  while (!StopRequested()) {
    servers.SayReady(protocol.ServerReady());
    servers.EndSlowCalls();
    absl::SleepFor(kPoll);
  }
  Drain(protocol, servers);
  return absl::OkStatus();
}

}  // namespace splitveil
