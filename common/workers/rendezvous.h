// How the workers of a party find each other: over mutual TLS, with their own party's certificate.
#ifndef SPLITVEIL_COMMON_WORKERS_RENDEZVOUS_H_
#define SPLITVEIL_COMMON_WORKERS_RENDEZVOUS_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

#include "common/crypto/digest.h"
#include "common/process/steady_time.h"
#include "common/transport/certificate.h"
#include "common/transport/server.h"
#include "common/workers/worker_place.h"

#include "splitveil/v1/workers.grpc.pb.h"
#include "splitveil/v1/workers.pb.h"

namespace splitveil {

// What the leader knows of its workers. Thread-safe.
class RendezvousService final : public v1::WorkerRendezvous::Service {
 public:
  // `size`: of the group; `settings`: what all must share.
  RendezvousService(int size, const Digest& settings);

  // The leader's own calls; as those of the others below.
  absl::Status Write(const std::string& key, const std::string& value) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<std::string> Read(const std::string& key) ABSL_LOCKS_EXCLUDED(mutex_);
  // Ranks that have not joined yet, "1, 3"; empty: all have.
  std::string Missing() ABSL_LOCKS_EXCLUDED(mutex_);

  grpc::Status Join(grpc::ServerContext*, const v1::JoinWorkersRequest* request,
                    v1::JoinWorkersResponse* response) override;
  grpc::Status Put(grpc::ServerContext*, const v1::PutWorkerFactRequest* request, v1::PutWorkerFactResponse*) override;
  grpc::Status Get(grpc::ServerContext*, const v1::GetWorkerFactRequest* request,
                   v1::GetWorkerFactResponse* response) override;
  grpc::Status Watch(grpc::ServerContext*, const v1::WatchWorkersRequest* request, v1::WatchWorkersResponse*) override;

 private:
  absl::Status CheckGroup(const std::string& group_id) const;

  const int size_;
  const std::string settings_;
  std::string group_id_;
  absl::Mutex mutex_;
  std::vector<bool> joined_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::string> facts_ ABSL_GUARDED_BY(mutex_);
};

// A process's place among the workers, and what they let each other know. Thread-safe.
class Rendezvous {
 public:
  // Leads: serves at the port of `place.leader_address` until it is destroyed, and waits for all others. Else: joins
  // the leader. Until `deadline`, or until StopRequested. Errors: Unavailable, which ranks or what is missing;
  // Cancelled (StoppedOnRequest); InvalidArgument for a place that is taken, another number of workers, other settings
  // or a certificate that the leader does not accept.
  static absl::StatusOr<std::unique_ptr<Rendezvous>> Meet(const WorkerPlace& place, const TlsIdentity& identity,
                                                          const Digest& settings, SteadyTime deadline);
  ~Rendezvous();

  // Writes a fact, once; reads one, and waits for it until Meet's deadline. Errors: Unavailable; Cancelled.
  absl::Status Put(const std::string& key, const std::string& value);
  absl::StatusOr<std::string> Get(const std::string& key);
  // Whether the leader is still at work in this group; for the others.
  absl::Status Watch();

 private:
  Rendezvous() = default;
  absl::Status Lead(const TlsIdentity& identity, const Digest& settings);
  absl::Status Follow(const TlsIdentity& identity, const Digest& settings);
  absl::StatusOr<std::string> TryGet(const std::string& key);

  WorkerPlace place_;
  SteadyTime deadline_;
  // The leader's.
  std::unique_ptr<RendezvousService> service_;
  RunningServer server_;
  // The others'.
  std::unique_ptr<v1::WorkerRendezvous::Stub> stub_;
  std::string group_id_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_WORKERS_RENDEZVOUS_H_
