// The non-label party as a service: from a checked configuration to a finished run.
#ifndef SPLITVEIL_NONLABEL_PARTY_SERVICE_NONLABEL_PARTY_H_
#define SPLITVEIL_NONLABEL_PARTY_SERVICE_NONLABEL_PARTY_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/checkpoint/checkpoint_plan.h"
#include "common/transport/credentials.h"

#include "splitveil/v1/agreement.pb.h"
#include "splitveil/v1/party.pb.h"

namespace splitveil {

// What `nonlabel_party --check` proves to be in order.
struct NonLabelPartyPlan {
  v1::RunAgreement agreement;  // Canonical.
  v1::NonLabelPartyConfig config;
  std::string config_path;  // Paths in `config` are relative to its folder.
  TlsIdentity identity;
  CheckpointPlan checkpoints;
};

// Loads and validates both files, the certificates and the checkpoint to resume from. Errors: NotFound,
// InvalidArgument as one line that says where.
absl::StatusOr<NonLabelPartyPlan> PlanNonLabelParty(const std::string& agreement_path, const std::string& config_path);

// Reads the data, waits for the label party and runs one run with it; serves health and status meanwhile. Returns when
// the run has ended; OK too where SIGTERM ended it.
absl::Status RunNonLabelParty(const NonLabelPartyPlan& plan);

}  // namespace splitveil

#endif  // SPLITVEIL_NONLABEL_PARTY_SERVICE_NONLABEL_PARTY_H_
