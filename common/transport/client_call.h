// Calls of a gRPC client: the deadline of one, and of each message of a stream; statuses in our terms; the pause before
// another try.
#ifndef SPLITVEIL_COMMON_TRANSPORT_CLIENT_CALL_H_
#define SPLITVEIL_COMMON_TRANSPORT_CLIENT_CALL_H_

#include <chrono>
#include <functional>
#include <grpc/support/time.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "common/process/steady_time.h"
#include "common/status/status_macros.h"

namespace splitveil {

// Payload that marks an error as decided by, or about, the peer. It stays in this process.
inline constexpr char kRefusedByPeerPayloadUrl[] = "splitveil/refused-by-peer";

// Payload that marks a ResourceExhausted as the verdict of a release gate (AsHalt and IsHalt in common/process). The
// only payload that goes to the peer, as the same text in the error details; without it, gRPC's own limits of threads
// and message sizes, which end calls with the same code, would read as a halt.
inline constexpr char kHaltedPayloadUrl[] = "splitveil/halted";

// Payloads other than the mark of a halt are not sent; in the message, "a file" replaces each path that begins at the
// root.
grpc::Status ToGrpcStatus(const absl::Status& status);
// A status that came from the peer; RefusedByPeer() is true of it unless it says that the peer is gone (Unavailable,
// DeadlineExceeded, Cancelled). A ResourceExhausted whose details say so is marked as a halt; any other details, and
// those of other codes, are ignored. A code gRPC does not know becomes Unknown; Unknown itself, by which gRPC means a
// lost connection, Unavailable. Control characters in the peer's text become spaces, so that it stays one line and
// cannot steer a terminal.
absl::Status FromGrpcStatus(const grpc::Status& status);

// Marks an error as decided by, or about, the peer. Keeps code, message and payloads; OK stays OK.
absl::Status MarkRefusedByPeer(absl::Status status);

// Whether the peer decided this error (exit 4), rather than this process.
bool RefusedByPeer(const absl::Status& status);

// Random, between half of `pause` and all of it: parties that lost each other together do not come back together.
// Thread-safe.
absl::Duration Jittered(absl::Duration pause);

// For ClientContext::set_deadline and Server::Shutdown. On gRPC's monotonic clock: its other deadlines follow the wall
// clock.
inline gpr_timespec GrpcDeadline(SteadyTime deadline) {
  const std::chrono::nanoseconds left = deadline - SteadyNow();
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(left.count(), GPR_TIMESPAN));
}

// Calls `method` of `stub` (a pointer to one): the answer comes by `deadline`, or DeadlineExceeded does. Errors: as
// FromGrpcStatus.
template <typename StubPointer, typename Stub, typename Request, typename Response>
absl::StatusOr<Response> CallUnary(const StubPointer& stub,
                                   grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                                   const Request& request, SteadyTime deadline) {
  grpc::ClientContext context;
  context.set_deadline(GrpcDeadline(deadline));
  Response response;
  SPLITVEIL_RETURN_IF_ERROR(FromGrpcStatus(((*stub).*method)(&context, request, &response)));
  return response;
}

// Calls `cancel` (for example context.TryCancel) once if the time between Arm and Disarm exceeds `limit`. Thread-safe.
// `cancel` runs on the watchdog's thread, without a lock held, and may call the watchdog; the destructor waits for it.
// One thread per watchdog, which wakes about once per `limit`, not per message.
class StreamWatchdog {
 public:
  StreamWatchdog(absl::Duration limit, std::function<void()> cancel);
  ~StreamWatchdog();
  StreamWatchdog(const StreamWatchdog&) = delete;
  StreamWatchdog& operator=(const StreamWatchdog&) = delete;

  // Starts the time, or restarts it if it is running. Cheap: no thread is woken unless the watchdog is idle.
  void Arm();
  void Disarm();
  // Whether it has fired.
  bool expired() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_TRANSPORT_CLIENT_CALL_H_
