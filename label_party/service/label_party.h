// The label party as a service: from a checked configuration to a finished run, and what can be checked without one.
#ifndef SPLITVEIL_LABEL_PARTY_SERVICE_LABEL_PARTY_H_
#define SPLITVEIL_LABEL_PARTY_SERVICE_LABEL_PARTY_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/checkpoint/checkpoint_plan.h"
#include "common/monitoring/monitoring_plan.h"
#include "common/operations/dry_run.h"
#include "common/transport/credentials.h"

#include "splitveil/v1/agreement.pb.h"
#include "splitveil/v1/party.pb.h"

namespace splitveil {

// What is in order before any data are read.
struct LabelPartyPlan {
  v1::RunAgreement agreement;  // Canonical.
  v1::LabelPartyConfig config;
  std::string config_path;  // For errors.
  TlsIdentity identity;
  CheckpointPlan checkpoints;
  std::optional<MonitoringPlan> monitoring;  // nullopt: none.
  bool verbose_summary = false;              // PartyFlags.
};

// Loads and validates both files, the certificates, the checkpoint to continue from, the place of the ledger and the
// protection, which must pass its self-test. Errors: NotFound, InvalidArgument as one line that says where.
absl::StatusOr<LabelPartyPlan> PlanLabelParty(const std::string& agreement_path, const std::string& config_path);

// What `label_party --check` tries beyond the plan: opens what the run would open, read-only, and checks that it could
// listen and write. Errors: those of the run, or of CheckPlaces.
absl::Status CheckLabelParty(const LabelPartyPlan& plan);

// Reads the data and serves one run. Once training has begun, its end writes every figure to ResultPath of the ledger
// (run_summary.h) and to `result_path`, and prints a table on standard error; a complete run prints the RESULT line on
// standard output. Returns when the run has ended. Errors: StoppedOnRequest if SIGTERM or SIGINT ended it.
absl::Status RunLabelParty(const LabelPartyPlan& plan);

// Everything about this party's part of a run that can be checked without the peer, each by itself, so that one problem
// hides no other: agreement, configuration, certificates, data, release policy, privacy account, what the run will
// need; at last all that CheckLabelParty opens. Writes nothing.
DryRun DryRunLabelParty(const std::string& agreement_path, const std::string& config_path);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_SERVICE_LABEL_PARTY_H_
