// What the workers of the non-label party do that do not lead.
#ifndef SPLITVEIL_NONLABEL_PARTY_BOTTOM_BOTTOM_WORKER_H_
#define SPLITVEIL_NONLABEL_PARTY_BOTTOM_BOTTOM_WORKER_H_

#include "absl/status/status.h"

#include "common/workers/worker_group.h"
#include "nonlabel_party/bottom/bottom_model.h"

namespace splitveil {

// Computes what the leader asks for (distributed_bottom_model.h), until it says that the run has ended
// (EndBottomWorkers). `options`: what the configuration says of the model; features and seed are the leader's. Errors:
// Cancelled once the leader is gone.
absl::Status ServeBottomWorker(const BottomModelOptions& options, WorkerGroup* group);

// At the leader: the run has ended with `outcome`, and so do the others: ServeBottomWorker returns OK, StoppedOnRequest
// or Cancelled. Errors: as WorkerGroup.
absl::Status EndBottomWorkers(WorkerGroup* group, const absl::Status& outcome);

}  // namespace splitveil

#endif  // SPLITVEIL_NONLABEL_PARTY_BOTTOM_BOTTOM_WORKER_H_
