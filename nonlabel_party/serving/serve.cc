#include "nonlabel_party/serving/serve.h"

#include <grpcpp/health_check_service_interface.h>
#include <memory>
#include <optional>

#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "common/config/agreement.h"
#include "common/config/text_config.h"
#include "common/model/torch_settings.h"
#include "common/monitoring/monitoring_server.h"
#include "common/monitoring/version_metrics.h"
#include "common/operations/party_program.h"
#include "common/process/runtime.h"
#include "common/status/status_context.h"
#include "common/status/status_macros.h"
#include "common/telemetry/log.h"
#include "common/transport/client_call.h"
#include "common/transport/credentials.h"
#include "common/transport/host_port.h"
#include "common/transport/server.h"
#include "nonlabel_party/serving/live_service.h"
#include "nonlabel_party/serving/live_version.h"

namespace splitveil {
namespace {

// One more than the label party, which goes on asking for its two while the next is stored.
constexpr size_t kVersions = 3;
constexpr absl::Duration kDrainLimit = absl::Seconds(10);
constexpr absl::Duration kPoll = absl::Milliseconds(20);

struct LivePlan {
  v1::LiveServingConfig config;
  LiveVersion::Training training;
  TlsIdentity identity;
  std::optional<MonitoringPlan> monitoring;
};

absl::StatusOr<LivePlan> PlanLiveServing(const std::string& config_path) {
  LivePlan plan;
  SPLITVEIL_RETURN_IF_ERROR(LoadTextConfig(config_path, plan.config));
  SPLITVEIL_ASSIGN_OR_RETURN(plan.training.agreement, LoadAgreement(plan.config.agreement_path()));
  SPLITVEIL_RETURN_IF_ERROR(LoadTextConfig(plan.config.config_path(), plan.training.config));
  SPLITVEIL_RETURN_IF_ERROR(Within(plan.config.config_path(), CheckAnswersLive(plan.training.config.protection())));
  SPLITVEIL_RETURN_IF_ERROR(
      Within(config_path, ParseHostPort("listen_address", plan.config.listen_address()).status()));
  v1::PartyCommon& party = *plan.training.config.mutable_party();
  if (!plan.config.data_path().empty()) {
    party.mutable_dataset()->set_path(plan.config.data_path());
  }
  plan.training.drifts = std::make_shared<DriftWatches>();
  // The page of the training is another process's.
  party.clear_monitoring();
  if (plan.config.has_monitoring()) {
    *party.mutable_monitoring() = plan.config.monitoring();
  }
  SPLITVEIL_ASSIGN_OR_RETURN(plan.identity, LoadPartyIdentity(party.identity()));
  SPLITVEIL_ASSIGN_OR_RETURN(plan.monitoring, PlanMonitoring(party, config_path, plan.identity, "monitoring"));
  return plan;
}

LiveVersions::Options VersionsOf(const LivePlan& plan) {
  LiveVersions::Options options;
  options.folder = plan.config.versions_path();
  options.served = kVersions;
  options.open = [&plan](int64_t number) {
    return LiveVersion::Open(plan.training, plan.config.versions_path(), number);
  };
  options.stamp = [&plan] { return FileStamp(plan.training.config.party().dataset().path()); };
  return options;
}

// Not ready, then answers what has come.
void Drain(LiveService& service, grpc::Server& server) {
  service.StopAnswering();
  server.GetHealthCheckService()->SetServingStatus(false);
  const SteadyTime limit = SteadyAfter(kDrainLimit);
  while (service.under_way() > 0 && SteadyNow() < limit) {
    absl::SleepFor(kPoll);
  }
  server.Shutdown(GrpcDeadline(limit));
  LogInfo("stopped; what had come is answered");
}

}  // namespace

absl::Status ServeLive(const std::string& config_path) {
  SPLITVEIL_ASSIGN_OR_RETURN(const LivePlan plan, PlanLiveServing(config_path));
  const v1::PartyCommon& party = plan.training.config.party();
  const v1::RunAgreement& agreement = plan.training.agreement;
  ReuseTensorMemory();
  SetComputeThreads(party.compute_threads());
  KeepForOwnerAlone(plan.training.config);
  LiveMetrics metrics;
  const LiveVersions versions(VersionsOf(plan));
  LiveService service({plan.config.max_rows(), agreement.wire_dtype()}, &versions, &metrics);
  RunStatus status("nonlabel_party");
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<MonitoringServer> page,
                             StartServingPage(plan.monitoring, agreement.run_name(), status, [&metrics, &versions] {
                               return metrics.Text() + VersionMetrics(FiguresOf(versions));
                             }));
  SPLITVEIL_ASSIGN_OR_RETURN(
      const RunningServer running,
      StartServer({plan.config.listen_address(), MaxLiveBytes(agreement, plan.config.max_rows()), {&service}},
                  plan.identity));
  LogInfo("serves ", agreement.run_name(), " live on port ", running.port);
  if (versions.Numbers().empty()) {
    LogWarning("no version can be used yet: splitveil predict --store=", plan.config.versions_path(),
               " adds one; one that does not fit is named above");
  }
  std::optional<bool> ready_said;
  while (!StopRequested()) {
    // Said once: grpc.health.v1 tells each client that watches, also what it knows already.
    if (const bool ready = service.ready(); ready_said != ready) {
      running.server->GetHealthCheckService()->SetServingStatus(ready);
      ready_said = ready;
    }
    absl::SleepFor(kPoll);
  }
  Drain(service, *running.server);
  return absl::OkStatus();
}

}  // namespace splitveil
