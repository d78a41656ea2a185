// One request, one answer, one deadline.
#ifndef SPLITVEIL_COMMON_TRANSPORT_UNARY_CALL_H_
#define SPLITVEIL_COMMON_TRANSPORT_UNARY_CALL_H_

#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>

#include "absl/status/statusor.h"

#include "common/process/steady_time.h"
#include "common/status/status_macros.h"
#include "common/transport/grpc_deadline.h"
#include "common/transport/status_mapper.h"

namespace splitveil {

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

#endif  // SPLITVEIL_COMMON_TRANSPORT_UNARY_CALL_H_
