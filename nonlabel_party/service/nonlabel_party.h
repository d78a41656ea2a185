// The non-label party as a service: from a checked configuration to a finished run.
#ifndef SPLITVEIL_NONLABEL_PARTY_SERVICE_NONLABEL_PARTY_H_
#define SPLITVEIL_NONLABEL_PARTY_SERVICE_NONLABEL_PARTY_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/checkpoint/checkpoint_plan.h"
#include "common/monitoring/monitoring_plan.h"
#include "common/operations/dry_run.h"
#include "common/transport/credentials.h"
#include "common/workers/worker_place.h"

#include "splitveil/v1/agreement.pb.h"
#include "splitveil/v1/party.pb.h"

namespace splitveil {

// What is in order before any data are read.
struct NonLabelPartyPlan {
  v1::RunAgreement agreement;  // Canonical.
  v1::NonLabelPartyConfig config;
  std::string config_path;  // For errors.
  TlsIdentity identity;
  CheckpointPlan checkpoints;
  std::optional<MonitoringPlan> monitoring;  // nullopt: none.
  bool verbose_summary = false;              // PartyFlags.
  std::optional<WorkerPlace> place;          // nullopt: no other process computes with this one.

  bool leads() const { return !place.has_value() || place->leads(); }
};

// Loads and validates both files, the certificates, the checkpoint to resume from and the place of the ledger. Errors:
// NotFound, InvalidArgument as one line that says where.
absl::StatusOr<NonLabelPartyPlan> PlanNonLabelParty(const std::string& agreement_path, const std::string& config_path);

// What `nonlabel_party --check` tries beyond the plan: opens what the run would open, read-only, and checks that it
// could listen and write. Does not look for the label party. Errors: those of the run, or of CheckPlaces.
absl::Status CheckNonLabelParty(const NonLabelPartyPlan& plan);

// Reads the data, waits for the label party and runs one run with it; serves health and status meanwhile. Returns when
// the run has ended. A worker that does not lead does nothing of this: it computes until its leader is done. Errors:
// StoppedOnRequest if SIGTERM or SIGINT ended it.
absl::Status RunNonLabelParty(const NonLabelPartyPlan& plan);

// `nonlabel_party --dry_run`: all that can be checked without the peer (agreement, configuration, certificates, data,
// what the run will need), each by itself, so that one problem hides no other; at last all that CheckNonLabelParty
// opens. Writes nothing.
DryRun DryRunNonLabelParty(const std::string& agreement_path, const std::string& config_path);

}  // namespace splitveil

#endif  // SPLITVEIL_NONLABEL_PARTY_SERVICE_NONLABEL_PARTY_H_
