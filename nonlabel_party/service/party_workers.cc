#include "nonlabel_party/service/party_workers.h"

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "common/config/agreement.h"
#include "common/crypto/sha256.h"
#include "common/process/runtime.h"
#include "common/process/steady_time.h"
#include "common/status/status_macros.h"
#include "common/telemetry/log.h"
#include "nonlabel_party/bottom/bottom_model.h"
#include "nonlabel_party/bottom/bottom_worker.h"
#include "nonlabel_party/protection/activation_protection.h"

namespace splitveil {
namespace {

// What workers must share: a worker with another model would sum other gradients.
Digest SettingsDigest(const v1::RunAgreement& agreement, const v1::NonLabelPartyConfig& config) {
  return Sha256(absl::StrCat(Version(), "\n", AgreementFingerprint(agreement), "\n", config.model().ShortDebugString(),
                             "\n", config.party().optimizer().ShortDebugString()));
}

}  // namespace

absl::StatusOr<std::optional<WorkerPlace>> PlanWorkers(const v1::NonLabelPartyConfig& config,
                                                       const Environment& environment) {
  absl::StatusOr<std::optional<WorkerPlace>> place = FindWorkerPlace(environment);
  if (!config.has_workers()) {
    // A launcher may set some of the variables for a process that is alone.
    if (place.ok() && place->has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat("workers: expected the interface over which the ", (*place)->size,
                       " workers talk that this process was started as one of, found none"));
    }
    return std::nullopt;
  }
  SPLITVEIL_RETURN_IF_ERROR(place.status());
  SPLITVEIL_RETURN_IF_ERROR(CheckWorkerInterface(config.workers().interface()));
  if (!config.model().torchscript_path().empty()) {
    return absl::InvalidArgumentError(
        "workers: one process alone computes a TorchScript half: remove workers, or model.torchscript_path");
  }
  if (HasObjective(config.protection())) {
    return absl::InvalidArgumentError(
        "workers: one process alone computes a protection that trains the model against an attacker: remove workers");
  }
  return place;
}

absl::StatusOr<std::unique_ptr<WorkerGroup>> JoinWorkers(const WorkerPlace& place, const TlsIdentity& identity,
                                                         const v1::RunAgreement& agreement,
                                                         const v1::NonLabelPartyConfig& config) {
  const v1::Deadlines& deadlines = agreement.deadlines();
  WorkerGroup::Options options;
  options.place = place;
  options.interface = config.workers().interface();
  options.identity = identity;
  options.settings = SettingsDigest(agreement, config);
  options.deadline = SteadyAfter(absl::Seconds(deadlines.connect_seconds()));
  options.patience = absl::Seconds(deadlines.step_seconds());
  SPLITVEIL_ASSIGN_OR_RETURN(std::unique_ptr<WorkerGroup> group, WorkerGroup::Join(options));
  LogInfo("all ", place.size, " workers are there; this is rank ", place.rank);
  return group;
}

absl::Status ComputeForLeader(const v1::RunAgreement& agreement, const v1::NonLabelPartyConfig& config,
                              WorkerGroup* group) {
  BottomModelOptions options;
  options.spec = config.model();
  options.cut_layer = agreement.cut_layer();
  options.optimizer = config.party().optimizer();
  options.cut_width = agreement.cut_width();
  return ServeBottomWorker(options, group);
}

}  // namespace splitveil
