#include "nonlabel_party/service/nonlabel_party.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"

#include "common/architecture/model_spec.h"
#include "common/config/agreement.h"
#include "common/config/text_config.h"
#include "common/dataset/features.h"
#include "common/dataset/prepared_data.h"
#include "common/matrix/matrix.h"
#include "common/model/optimizer_options.h"
#include "common/model/torch_settings.h"
#include "common/monitoring/monitoring_server.h"
#include "common/operations/dry_run.h"
#include "common/operations/operator_server.h"
#include "common/operations/party_program.h"
#include "common/operations/run_facts.h"
#include "common/operations/run_summary.h"
#include "common/process/exit_code.h"
#include "common/process/runtime.h"
#include "common/process/steady_time.h"
#include "common/status/status_context.h"
#include "common/status/status_macros.h"
#include "common/telemetry/log.h"
#include "common/transport/client_call.h"
#include "common/transport/credentials.h"
#include "common/transport/host_port.h"
#include "common/transport/peer_probe.h"
#include "common/transport/server.h"
#include "nonlabel_party/bottom/bottom_model.h"
#include "nonlabel_party/bottom/bottom_worker.h"
#include "nonlabel_party/service/grpc_label_party_peer.h"
#include "nonlabel_party/service/party_workers.h"
#include "nonlabel_party/session/activation_account.h"
#include "nonlabel_party/session/nonlabel_session.h"

namespace splitveil {
namespace {

// What a session needs of this party alone: everything but a peer.
absl::StatusOr<NonLabelSessionOptions> OwnSessionOptions(const NonLabelPartyPlan& plan, RunStatus* status,
                                                         Dataset::Check check) {
  NonLabelSessionOptions options;
  options.agreement = plan.agreement;
  options.config = plan.config;
  options.ledger_path = plan.config.party().ledger_path();
  options.status = status;
  options.stop = &StopRequested;
  options.checkpoints = plan.checkpoints;
  options.alignments =
      AlignmentStore(plan.config.party().alignment_cache_path(),
                     absl::Hours(plan.config.party().alignment_cache_hours()), IdentitySha256(plan.identity));
  SPLITVEIL_ASSIGN_OR_RETURN(options.data,
                             OpenPreparedData(plan.config.party(), plan.agreement, PreparedFor::kNonLabelParty, check));
  // A checkpoint of different data would resume with positions of different examples.
  SPLITVEIL_RETURN_IF_ERROR(options.checkpoints.UseData(*options.data, plan.agreement));
  return options;
}

// One run, or as much of it as one process of the label party sees: Aborted if a different one has replaced it.
// `alignments_left`: NonLabelSessionOptions', less those begun.
absl::Status RunSession(const NonLabelPartyPlan& plan, WorkerGroup* workers, int& alignments_left, RunStatus* status) {
  SPLITVEIL_ASSIGN_OR_RETURN(NonLabelSessionOptions options,
                             OwnSessionOptions(plan, status, Dataset::Check::kRemembered));
  // Carried from session to session: a peer that restarts must not get a fresh number of alignments.
  options.alignments_left = alignments_left;
  options.workers = workers;
  const SteadyTime deadline = SteadyAfter(absl::Seconds(plan.agreement.deadlines().connect_seconds()));
  // Reads renewed certificates from the disk: a run may outlast those it started with.
  ReloadedChannel channel(plan.config.peer_address(), plan.identity, MaxMessageBytes(plan.agreement));
  // The name in the certificate is checked with every connection, so that nobody else answers after an outage.
  const auto reach = [&](SteadyTime until) {
    const TlsIdentity identity = channel.identity();
    return WaitForPeer(plan.config.peer_address(), identity, identity.peer_name, until, &StopRequested);
  };
  // Before anything is sent: gRPC would report a wrong certificate only as "unavailable".
  const absl::Status reached = reach(deadline);
  if (absl::IsCancelled(reached)) {
    return StoppedOnRequest("the wait for the label party");
  }
  SPLITVEIL_RETURN_IF_ERROR(reached);
  GrpcLabelPartyPeer peer([&channel] { return channel.Get(); }, plan.agreement);
  options.peer = &peer;
  options.reach = [&](SteadyTime until) {
    absl::Status again = reach(until);
    if (again.ok()) {
      grpc::experimental::ChannelResetConnectionBackoff(
          channel.Get().get());  // The peer is there: gRPC need not wait out its back-off.
    }
    return again;
  };
  NonLabelSession session(std::move(options));
  absl::Status outcome = session.Run();
  alignments_left = session.alignments_left();
  if (const std::optional<RunFigures> figures = session.figures(); figures.has_value() && !absl::IsAborted(outcome)) {
    PrintRunSummary(*figures, plan.config.party().ledger_path(), plan.verbose_summary);
  }
  return outcome;
}

// The debit of a run that shares all of this party's examples: no run counts more.
absl::StatusOr<ForeseenDebit> Foresee(const v1::NonLabelPartyConfig& config, const v1::RunAgreement& agreement,
                                      const Dataset& data) {
  std::vector<NoiseRow> examples;
  examples.reserve(data.ids().size());
  for (size_t row = 0; row < data.ids().size(); ++row) {
    examples.push_back(NoiseRow::OfId(data.ids()[row]));
  }
  return ForeseeActivations(config, agreement, examples);
}

// Trains this party's half for about a second with gradients of zeros, to estimate the run's time and memory.
void ExpectRunOf(const v1::NonLabelPartyConfig& config, const v1::RunAgreement& agreement, const Dataset& data,
                 DryRun& dry_run) {
  std::vector<uint32_t> rows(static_cast<size_t>(std::min<int64_t>(agreement.batch_size(), data.rows())));
  std::iota(rows.begin(), rows.end(), 0);
  const FeatureBatch features = data.Gather(rows);
  const Matrix gradient(static_cast<int64_t>(rows.size()), agreement.cut_width());
  std::unique_ptr<BottomModel> model;
  DryRunExpectation(
      agreement, data,
      [&]() -> absl::Status {
        if (model == nullptr) {
          SPLITVEIL_ASSIGN_OR_RETURN(
              model, BottomModel::Create({config.model(), agreement.cut_layer(), config.party().optimizer(),
                                          data.features(), agreement.cut_width(), /*seed=*/1}));
        }
        SPLITVEIL_RETURN_IF_ERROR(model->Forward(features).status());
        SPLITVEIL_RETURN_IF_ERROR(model->Backward(gradient, {}).status());
        return model->Update();
      },
      dry_run);
}

// Checks that need agreement, configuration and data together.
void CheckTogether(const v1::RunAgreement& agreement, const v1::NonLabelPartyConfig& config, DryRun& dry_run) {
  dry_run.Check("fits agreement", CheckBottomSpec(config.model(), agreement), "model and audited layers");
  const std::shared_ptr<const Dataset> data =
      DryRunData(config.party(), agreement, PreparedFor::kNonLabelParty, dry_run);
  if (data != nullptr && config.has_privacy_account() && config.protection().has_gaussian()) {
    DryRunAccount(Foresee(config, agreement, *data), config.privacy_account().max_lifetime_auc_bound(), dry_run);
  }
  if (data != nullptr) {
    ExpectRunOf(config, agreement, *data, dry_run);
  }
}

// One run, by the process that talks to the label party. `workers`: who computes with it; null: nobody.
absl::Status LeadRun(const NonLabelPartyPlan& plan, WorkerGroup* workers) {
  KeepForOwnerAlone(plan.config);
  LogInfo("agreement fingerprint ", AgreementFingerprint(plan.agreement));
  const std::string& ledger = plan.config.party().ledger_path();
  const std::optional<UntoldEnd> end = FindUntoldEnd(ledger, plan.agreement);
  if (end.has_value() && !plan.config.party().restart()) {
    TellOf(*end, ledger);
    return absl::OkStatus();
  }
  ForgetUntoldEnd(ledger);
  RunStatus status("nonlabel_party");
  OperationsService operations(&status);
  const std::string status_socket = StatusSocketPath(plan.config.party());
  SPLITVEIL_ASSIGN_OR_RETURN(const OperatorServer operator_server, StartOperatorServer(status_socket, &operations));
  v1::Operations::Service unimplemented;  // gRPC starts no server without a service; all the port has is health.
  SPLITVEIL_ASSIGN_OR_RETURN(
      const RunningServer running,
      StartServer({plan.config.listen_address(), MaxMessageBytes(plan.agreement), {&unimplemented}}, plan.identity));
  std::unique_ptr<MonitoringServer> monitoring;
  if (plan.monitoring.has_value()) {
    SPLITVEIL_ASSIGN_OR_RETURN(monitoring, MonitoringServer::Start(*plan.monitoring, &status, /*actions=*/{}));
  }
  LogInfo("non-label party serves status on ", status_socket, ", health on port ", running.port);

  NonLabelPartyPlan part = plan;
  int alignments_left = kMostAlignments;
  absl::Status outcome = RunSession(part, workers, alignments_left, &status);
  // Aborted: the label party's process was replaced. With checkpoints, the same run resumes with the new one.
  while (absl::IsAborted(outcome) && !plan.checkpoints.path.empty()) {
    LogInfo(outcome.message());
    // `restart` applies to the first start only: now the interrupted run resumes.
    part.config.mutable_party()->clear_restart();
    SPLITVEIL_ASSIGN_OR_RETURN(
        part.checkpoints, PlanCheckpoints("nonlabel_party", part.config.party(), plan.config.model(), plan.agreement));
    outcome = RunSession(part, workers, alignments_left, &status);
  }
  // A second for a health check that is being answered.
  running.server->Shutdown(GrpcDeadline(SteadyAfter(absl::Seconds(1))));
  ForgetUntoldEnd(ledger);
  return outcome;
}

}  // namespace

absl::StatusOr<NonLabelPartyPlan> PlanNonLabelParty(const std::string& agreement_path, const std::string& config_path) {
  NonLabelPartyPlan plan;
  SPLITVEIL_ASSIGN_OR_RETURN(plan.agreement, LoadAgreement(agreement_path));
  plan.config_path = config_path;
  SPLITVEIL_RETURN_IF_ERROR(LoadTextConfig(config_path, plan.config));
  // All that needs no data is checked before any are read, which takes minutes for large tables.
  absl::Status fits = CheckFitsMode(plan.agreement, plan.config);
  fits.Update(CheckBottomSpec(plan.config.model(), plan.agreement));
  fits.Update(CheckActivationAccount(plan.config, plan.agreement));
  fits.Update(ReadOptimizerOptions(plan.config.party().optimizer()).status());
  fits.Update(ParseHostPort("listen_address", plan.config.listen_address()).status());
  fits.Update(ParseHostPort("peer_address", plan.config.peer_address()).status());
  SPLITVEIL_RETURN_IF_ERROR(Within(config_path, fits));
  absl::StatusOr<std::optional<WorkerPlace>> place = PlanWorkers(plan.config, &std::getenv);
  SPLITVEIL_RETURN_IF_ERROR(Within(config_path, place.status()));
  plan.place = *std::move(place);
  SPLITVEIL_ASSIGN_OR_RETURN(plan.identity, LoadPartyIdentity(plan.config.party().identity()));
  if (!plan.leads()) {
    return plan;  // Ledger, checkpoints, data and page are the leader's.
  }
  SPLITVEIL_RETURN_IF_ERROR(CheckLedgerOf(plan.config.party(), config_path));
  SPLITVEIL_ASSIGN_OR_RETURN(plan.monitoring, PlanMonitoring(plan.config.party(), config_path, plan.identity));
  SPLITVEIL_ASSIGN_OR_RETURN(
      plan.checkpoints, PlanCheckpoints("nonlabel_party", plan.config.party(), plan.config.model(), plan.agreement));
  return plan;
}

absl::Status CheckNonLabelParty(const NonLabelPartyPlan& plan) {
  if (!plan.leads()) {
    return absl::OkStatus();
  }
  // The same options as a run, without a peer: the check opens what the run would open.
  RunStatus status("nonlabel_party");
  SPLITVEIL_ASSIGN_OR_RETURN(NonLabelSessionOptions options, OwnSessionOptions(plan, &status, Dataset::Check::kWhole));
  SPLITVEIL_RETURN_IF_ERROR(CheckAffordable(plan.config, plan.agreement));
  SPLITVEIL_RETURN_IF_ERROR(NonLabelSession(std::move(options)).TryModel());
  return CheckPlaces(plan.config.party(), plan.config.listen_address(), plan.config_path);
}

absl::Status RunNonLabelParty(const NonLabelPartyPlan& plan) {
  ReuseTensorMemory();
  SetComputeThreads(plan.config.party().compute_threads());
  if (!plan.place.has_value()) {
    return LeadRun(plan, /*workers=*/nullptr);
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<WorkerGroup> workers,
                             JoinWorkers(*plan.place, plan.identity, plan.agreement, plan.config));
  if (!plan.leads()) {
    return ComputeForLeader(plan.agreement, plan.config, workers.get());
  }
  absl::Status outcome = LeadRun(plan, workers.get());
  outcome.Update(EndBottomWorkers(workers.get(), outcome));
  return outcome;
}

DryRun DryRunNonLabelParty(const std::string& agreement_path, const std::string& config_path) {
  return DryRunParty<v1::NonLabelPartyConfig>(agreement_path, config_path, CheckTogether, [&]() -> absl::Status {
    SPLITVEIL_ASSIGN_OR_RETURN(const NonLabelPartyPlan plan, PlanNonLabelParty(agreement_path, config_path));
    return CheckNonLabelParty(plan);
  });
}

}  // namespace splitveil
