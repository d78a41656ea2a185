// Which of a party's workers this process is.
#ifndef SPLITVEIL_COMMON_WORKERS_WORKER_PLACE_H_
#define SPLITVEIL_COMMON_WORKERS_WORKER_PLACE_H_

#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace splitveil {

inline constexpr int kMostWorkers = 64;

struct WorkerPlace {
  int rank = 0;  // 0 leads: it alone talks to the peer.
  int size = 1;  // Of all workers, [2, kMostWorkers].
  // Where the leader is met, "host:port".
  std::string leader_address;

  bool leads() const { return rank == 0; }
};

// Value of a variable of the environment, or null.
using Environment = std::function<const char*(const char* name)>;

// As launchers say it: RANK and WORLD_SIZE (torchrun), OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE (mpirun),
// SLURM_PROCID and SLURM_NTASKS, or JOB_COMPLETION_INDEX (a Kubernetes Indexed Job) and WORLD_SIZE, the first pair of
// which both are set; with MASTER_ADDR and MASTER_PORT. nullopt: none is, or there is one worker. Errors:
// InvalidArgument, naming the variable.
absl::StatusOr<std::optional<WorkerPlace>> FindWorkerPlace(const Environment& environment);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_WORKERS_WORKER_PLACE_H_
