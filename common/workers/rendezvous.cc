#include "common/workers/rendezvous.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"

#include "common/crypto/secure_random.h"
#include "common/process/exit_code.h"
#include "common/process/runtime.h"
#include "common/status/status_macros.h"
#include "common/telemetry/log.h"
#include "common/transport/client_call.h"
#include "common/transport/credentials.h"
#include "common/transport/host_port.h"
#include "common/transport/peer_probe.h"

namespace splitveil {
namespace {

constexpr int64_t kMostMessageBytes = 1 << 20;
constexpr size_t kMostKeyBytes = 64;
constexpr size_t kMostValueBytes = 64 << 10;  // A rank's addresses, one for each of the others.
constexpr size_t kFactsOfAWorker = 4;         // At most.
constexpr size_t kGroupIdBytes = 16;
constexpr absl::Duration kPause = absl::Milliseconds(50);  // Between two looks at what is not there yet.
constexpr absl::Duration kCall = absl::Seconds(10);        // For the leader's answer.

// Asks `is_done` again and again. Errors: its own; Cancelled; Unavailable, with `missing`, after `deadline`.
absl::Status Await(SteadyTime deadline, const std::function<absl::StatusOr<bool>()>& is_done,
                   const std::function<std::string()>& missing) {
  while (true) {
    SPLITVEIL_ASSIGN_OR_RETURN(const bool done, is_done());
    if (done) {
      return absl::OkStatus();
    }
    if (StopRequested()) {
      return StoppedOnRequest("the wait for the other workers");
    }
    if (SteadyNow() > deadline) {
      return absl::UnavailableError(missing());
    }
    absl::SleepFor(kPause);
  }
}

// What the leader answers, or that it is gone.
template <typename Response>
absl::StatusOr<Response> FromLeader(absl::StatusOr<Response> answer) {
  const absl::StatusCode code = answer.status().code();
  if (code == absl::StatusCode::kUnavailable || code == absl::StatusCode::kCancelled ||
      code == absl::StatusCode::kDeadlineExceeded) {
    return absl::UnavailableError("workers: rank 0 is gone: see its log");
  }
  return answer;
}

}  // namespace

RendezvousService::RendezvousService(int size, const Digest& settings)
    : size_(size), settings_(AsBytes(settings)), joined_(size) {
  std::array<uint8_t, kGroupIdBytes> id;
  FillSecureRandom(absl::MakeSpan(id));
  group_id_.assign(id.begin(), id.end());
  joined_[0] = true;
}

absl::Status RendezvousService::CheckGroup(const std::string& group_id) const {
  return group_id == group_id_
             ? absl::OkStatus()
             : absl::FailedPreconditionError("the workers have been started again: start this one, too");
}

absl::Status RendezvousService::Write(const std::string& key, const std::string& value) {
  if (key.size() > kMostKeyBytes || value.size() > kMostValueBytes) {
    return absl::InvalidArgumentError(absl::StrCat("fact of a worker: expected at most ", kMostKeyBytes, " and ",
                                                   kMostValueBytes, " bytes, found ", key.size(), " and ",
                                                   value.size()));
  }
  const absl::MutexLock lock(&mutex_);
  if (facts_.size() >= kFactsOfAWorker * static_cast<size_t>(size_) || !facts_.emplace(key, value).second) {
    return absl::AlreadyExistsError("fact of a worker: expected each once, found a second one");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> RendezvousService::Read(const std::string& key) {
  const absl::MutexLock lock(&mutex_);
  const auto found = facts_.find(key);
  return found == facts_.end() ? absl::StatusOr<std::string>(absl::NotFoundError("fact of a worker: not there yet"))
                               : found->second;
}

std::string RendezvousService::Missing() {
  const absl::MutexLock lock(&mutex_);
  std::vector<int> missing;
  for (int rank = 0; rank < size_; ++rank) {
    if (!joined_[rank]) {
      missing.push_back(rank);
    }
  }
  return absl::StrJoin(missing, ", ");
}

grpc::Status RendezvousService::Join(grpc::ServerContext*, const v1::JoinWorkersRequest* request,
                                     v1::JoinWorkersResponse* response) {
  absl::Status status;
  if (request->rank() >= static_cast<uint32_t>(size_)) {
    status = absl::InvalidArgumentError(absl::StrCat("RANK: expected one below ", size_, ", found ", request->rank()));
  }
  if (request->size() != static_cast<uint32_t>(size_)) {
    status.Update(absl::InvalidArgumentError(
        absl::StrCat("WORLD_SIZE: expected ", size_, ", as rank 0 has it, found ", request->size())));
  }
  if (request->settings_sha256() != settings_) {
    status.Update(absl::InvalidArgumentError(
        "settings: expected the program, agreement and configuration of rank 0, found others: start all workers with "
        "the same files"));
  }
  if (status.ok()) {
    const absl::MutexLock lock(&mutex_);
    if (joined_[request->rank()]) {
      // Exit 3, so that a supervisor starts it again: an earlier start of it may be about to end the group.
      status =
          absl::UnavailableError(absl::StrCat("rank ", request->rank(),
                                              " has joined already: another worker has this RANK, or an earlier start "
                                              "of this one ends the run with the next batch"));
    }
    joined_[request->rank()] = joined_[request->rank()] || status.ok();
  }
  response->set_group_id(group_id_);
  return ToGrpcStatus(status);
}

grpc::Status RendezvousService::Put(grpc::ServerContext*, const v1::PutWorkerFactRequest* request,
                                    v1::PutWorkerFactResponse*) {
  const absl::Status status = CheckGroup(request->group_id());
  return ToGrpcStatus(status.ok() ? Write(request->key(), request->value()) : status);
}

grpc::Status RendezvousService::Get(grpc::ServerContext*, const v1::GetWorkerFactRequest* request,
                                    v1::GetWorkerFactResponse* response) {
  absl::Status status = CheckGroup(request->group_id());
  if (status.ok()) {
    absl::StatusOr<std::string> value = Read(request->key());
    status = value.status();
    response->set_value(std::move(value).value_or(""));
  }
  return ToGrpcStatus(status);
}

grpc::Status RendezvousService::Watch(grpc::ServerContext*, const v1::WatchWorkersRequest* request,
                                      v1::WatchWorkersResponse*) {
  return ToGrpcStatus(CheckGroup(request->group_id()));
}

absl::StatusOr<std::unique_ptr<Rendezvous>> Rendezvous::Meet(const WorkerPlace& place, const TlsIdentity& identity,
                                                             const Digest& settings, SteadyTime deadline) {
  std::unique_ptr<Rendezvous> meeting(new Rendezvous());
  meeting->place_ = place;
  meeting->deadline_ = deadline;
  SPLITVEIL_RETURN_IF_ERROR(place.leads() ? meeting->Lead(identity, settings) : meeting->Follow(identity, settings));
  return meeting;
}

Rendezvous::~Rendezvous() {
  if (server_.server != nullptr) {
    // gRPC would wait for a worker whose machine is lost.
    server_.server->Shutdown(GrpcDeadline(SteadyAfter(absl::Seconds(1))));
  }
}

absl::Status Rendezvous::Lead(const TlsIdentity& identity, const Digest& settings) {
  service_ = std::make_unique<RendezvousService>(place_.size, settings);
  SPLITVEIL_ASSIGN_OR_RETURN(const HostPort leader,
                             ParseHostPort("MASTER_ADDR and MASTER_PORT", place_.leader_address));
  SPLITVEIL_RETURN_IF_ERROR(CheckFree("MASTER_PORT", absl::StrCat("[::]:", leader.port)));
  SPLITVEIL_ASSIGN_OR_RETURN(
      server_, StartServer({absl::StrCat("[::]:", leader.port), kMostMessageBytes, {service_.get()}}, identity));
  LogInfo("rank 0 of ", place_.size, " workers waits for the others on port ", leader.port);
  return Await(
      deadline_, [&] { return service_->Missing().empty(); },
      [&] {
        return absl::StrCat("workers: expected ", place_.size, " until deadlines.connect_seconds, missing rank ",
                            service_->Missing());
      });
}

absl::Status Rendezvous::Follow(const TlsIdentity& identity, const Digest& settings) {
  LogInfo("rank ", place_.rank, " of ", place_.size, " workers looks for rank 0 at ", place_.leader_address);
  const absl::Status reached =
      WaitForPeer(place_.leader_address, identity, identity.own_name, deadline_, &StopRequested);
  if (absl::IsCancelled(reached)) {
    return StoppedOnRequest("the wait for rank 0");
  }
  if (!reached.ok()) {
    return absl::Status(reached.code(), absl::StrCat("rank 0, at MASTER_ADDR and MASTER_PORT: ", reached.message()));
  }
  stub_ =
      v1::WorkerRendezvous::NewStub(TlsChannel(place_.leader_address, identity, identity.own_name, kMostMessageBytes));
  v1::JoinWorkersRequest request;
  request.set_rank(static_cast<uint32_t>(place_.rank));
  request.set_size(static_cast<uint32_t>(place_.size));
  request.set_settings_sha256(std::string(AsBytes(settings)));
  const absl::StatusOr<v1::JoinWorkersResponse> joined =
      CallUnary(stub_, &v1::WorkerRendezvous::Stub::Join, request, SteadyAfter(kCall));
  if (!joined.ok()) {
    return absl::Status(joined.status().code(), absl::StrCat("rank 0 says: ", joined.status().message()));
  }
  group_id_ = joined->group_id();
  return absl::OkStatus();
}

absl::Status Rendezvous::Put(const std::string& key, const std::string& value) {
  if (place_.leads()) {
    return service_->Write(key, value);
  }
  v1::PutWorkerFactRequest request;
  request.set_group_id(group_id_);
  request.set_key(key);
  request.set_value(value);
  return FromLeader(CallUnary(stub_, &v1::WorkerRendezvous::Stub::Put, request, SteadyAfter(kCall))).status();
}

absl::StatusOr<std::string> Rendezvous::TryGet(const std::string& key) {
  if (place_.leads()) {
    return service_->Read(key);
  }
  v1::GetWorkerFactRequest request;
  request.set_group_id(group_id_);
  request.set_key(key);
  SPLITVEIL_ASSIGN_OR_RETURN(
      v1::GetWorkerFactResponse response,
      FromLeader(CallUnary(stub_, &v1::WorkerRendezvous::Stub::Get, request, SteadyAfter(kCall))));
  return std::move(*response.mutable_value());
}

absl::StatusOr<std::string> Rendezvous::Get(const std::string& key) {
  absl::StatusOr<std::string> value = absl::UnknownError("");
  SPLITVEIL_RETURN_IF_ERROR(Await(
      deadline_,
      [&]() -> absl::StatusOr<bool> {
        value = TryGet(key);
        if (value.ok() || absl::IsNotFound(value.status())) {
          return value.ok();
        }
        return value.status();
      },
      [] {
        return std::string(
            "workers: not all have joined and said where they are reached: the log of rank 0 says who is missing");
      }));
  return value;
}

absl::Status Rendezvous::Watch() {
  v1::WatchWorkersRequest request;
  request.set_group_id(group_id_);
  return CallUnary(stub_, &v1::WorkerRendezvous::Stub::Watch, request, SteadyAfter(kCall)).status();
}

}  // namespace splitveil
