// A deadline as gRPC takes it.
#ifndef SPLITVEIL_COMMON_TRANSPORT_GRPC_DEADLINE_H_
#define SPLITVEIL_COMMON_TRANSPORT_GRPC_DEADLINE_H_

#include <chrono>
#include <grpc/support/time.h>

#include "common/process/steady_time.h"

namespace splitveil {

// For ClientContext::set_deadline and Server::Shutdown. On gRPC's monotonic clock: its other deadlines follow the wall
// clock.
inline gpr_timespec GrpcDeadline(SteadyTime deadline) {
  const std::chrono::nanoseconds left = deadline - SteadyNow();
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(left.count(), GPR_TIMESPAN));
}

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_TRANSPORT_GRPC_DEADLINE_H_
