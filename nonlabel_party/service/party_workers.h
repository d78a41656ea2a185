// The workers of the non-label party: which one this process is, and what it does if it does not lead.
#ifndef SPLITVEIL_NONLABEL_PARTY_SERVICE_PARTY_WORKERS_H_
#define SPLITVEIL_NONLABEL_PARTY_SERVICE_PARTY_WORKERS_H_

#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/transport/certificate.h"
#include "common/workers/worker_group.h"
#include "common/workers/worker_place.h"

#include "splitveil/v1/agreement.pb.h"
#include "splitveil/v1/party.pb.h"

namespace splitveil {

// This process's place; nullopt: it is alone. Errors: InvalidArgument for a model or a protection that one process must
// compute, for several workers without `workers`, and as FindWorkerPlace.
absl::StatusOr<std::optional<WorkerPlace>> PlanWorkers(const v1::NonLabelPartyConfig& config,
                                                       const Environment& environment);

// Waits for the others. Errors: as WorkerGroup::Join.
absl::StatusOr<std::unique_ptr<WorkerGroup>> JoinWorkers(const WorkerPlace& place, const TlsIdentity& identity,
                                                         const v1::RunAgreement& agreement,
                                                         const v1::NonLabelPartyConfig& config);

// At a worker that does not lead: computes until the leader is done. Errors: as ServeBottomWorker.
absl::Status ComputeForLeader(const v1::RunAgreement& agreement, const v1::NonLabelPartyConfig& config,
                              WorkerGroup* group);

}  // namespace splitveil

#endif  // SPLITVEIL_NONLABEL_PARTY_SERVICE_PARTY_WORKERS_H_
