// The only place where absl::Status and grpc::Status meet. Keeps every code and the message.
#ifndef SPLITVEIL_COMMON_TRANSPORT_STATUS_MAPPER_H_
#define SPLITVEIL_COMMON_TRANSPORT_STATUS_MAPPER_H_

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace splitveil {

grpc::Status ToGrpcStatus(const absl::Status& status);
// A status that came from the peer; RefusedByPeer() is true of it unless it says the peer is gone.
absl::Status FromGrpcStatus(const grpc::Status& status);

// Whether the peer decided this error (exit 4), rather than this process.
bool RefusedByPeer(const absl::Status& status);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_TRANSPORT_STATUS_MAPPER_H_
