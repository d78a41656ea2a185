// The bottom model of a party with several workers: each has all of the parameters and computes some rows of every
// batch.
#ifndef SPLITVEIL_NONLABEL_PARTY_BOTTOM_DISTRIBUTED_BOTTOM_MODEL_H_
#define SPLITVEIL_NONLABEL_PARTY_BOTTOM_DISTRIBUTED_BOTTOM_MODEL_H_

#include <memory>

#include "absl/status/statusor.h"

#include "common/workers/worker_group.h"
#include "nonlabel_party/bottom/bottom_model.h"

namespace splitveil {

// At the leader: the whole model, of which nobody else need know that others compute it, too (bottom_worker.h). It
// sends each worker the features and the gradients of its rows (ShareOf), and puts their activations together; all
// gradients are summed over the workers before each Update (GradientExchange). What is sent to the peer, its noise,
// accounts, attacks, checkpoints and ledgers are the leader's alone, and the number of workers changes nothing of them
// but the last bits of sums of floats. `group`: not owned. Errors: as BottomModel; Cancelled once a worker is lost;
// Unimplemented of BottomObjectives; InvalidArgument for a TorchScript half, whose graph serves one process.
absl::StatusOr<std::unique_ptr<BottomModel>> CreateBottomModel(const BottomModelOptions& options, WorkerGroup* group);

}  // namespace splitveil

#endif  // SPLITVEIL_NONLABEL_PARTY_BOTTOM_DISTRIBUTED_BOTTOM_MODEL_H_
