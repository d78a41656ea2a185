// Processes of one party that compute together, over Gloo, which PyTorch uses for the same.
#ifndef SPLITVEIL_COMMON_WORKERS_WORKER_GROUP_H_
#define SPLITVEIL_COMMON_WORKERS_WORKER_GROUP_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

#include "common/crypto/digest.h"
#include "common/process/steady_time.h"
#include "common/transport/certificate.h"
#include "common/workers/worker_place.h"

namespace splitveil {

// First row and number of rows of `rows` that worker `rank` of `size` computes: shares in the order of the ranks, which
// differ by one row at most; the leader has one if there is any.
struct RowShare {
  int64_t first = 0;
  int64_t rows = 0;
};
RowShare ShareOf(int64_t rows, int rank, int size);

// InvalidArgument, naming v1::Workers.interface, if this machine has no such interface, or one with a public address.
absl::Status CheckWorkerInterface(const std::string& name);

// Every method is called by one thread. Bytes travel unencrypted over the interface: the network between the workers is
// trusted (SECURITY.md). Errors of every method, beside those it names: Cancelled once a worker is lost or silent for
// longer than `patience`; after an error the group is of no use.
class WorkerGroup {
 public:
  struct Options {
    WorkerPlace place;
    std::string interface;    // v1::Workers.interface.
    TlsIdentity identity;     // For the rendezvous (rendezvous.h).
    Digest settings = {};     // What all workers must share; a worker with others is refused.
    SteadyTime deadline;      // For all to be there.
    absl::Duration patience;  // For what another worker is to send.
  };

  // Waits for all workers. Errors: see Rendezvous::Meet; InvalidArgument for an interface that is not there or whose
  // address is public.
  static absl::StatusOr<std::unique_ptr<WorkerGroup>> Join(const Options& options);
  ~WorkerGroup();

  int rank() const;
  int size() const;
  bool leads() const { return rank() == 0; }
  // Time that the leader has spent in exchanges so far: what they take, and what it waits for others that compute.
  double exchange_seconds() const;

  // What is under way: sends and receipts to and from single workers, in the order in which both name them. `data` must
  // stay until Wait. Zero bytes are not sent.
  void Send(int rank, const void* data, size_t bytes);
  void Receive(int rank, void* data, size_t bytes);
  // Waits for all of them.
  absl::Status Wait();
  // What the leader sends next, however long that takes: it may be waiting for its peer.
  absl::Status AwaitLeader(void* data, size_t bytes);

  // Replaces `values`, as many at each worker, by their sum over all. The same bits at each, and in each run with as
  // many workers.
  absl::Status Sum(absl::Span<float> values);
  // `own` of every worker, one behind the other by rank; `bytes`: of each.
  absl::StatusOr<std::vector<char>> Gather(absl::Span<const char> own, const std::vector<size_t>& bytes);

 private:
  struct State;
  explicit WorkerGroup(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_WORKERS_WORKER_GROUP_H_
