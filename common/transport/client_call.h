// One request, one answer, one deadline, as a gRPC client makes them.
#ifndef SPLITVEIL_COMMON_TRANSPORT_CLIENT_CALL_H_
#define SPLITVEIL_COMMON_TRANSPORT_CLIENT_CALL_H_

#include <chrono>
#include <grpc/support/time.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>

#include "absl/status/statusor.h"

#include "common/process/steady_time.h"
#include "common/status/status_macros.h"
#include "common/transport/status_mapper.h"

namespace splitveil {

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

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_TRANSPORT_CLIENT_CALL_H_
