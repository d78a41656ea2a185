// The only place where absl::Status and grpc::Status meet. Keeps every code, the message and the mark of a halt.
#ifndef SPLITVEIL_COMMON_TRANSPORT_STATUS_MAPPER_H_
#define SPLITVEIL_COMMON_TRANSPORT_STATUS_MAPPER_H_

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace splitveil {

// Payload that marks an error as decided by, or about, the peer. It stays in this process.
inline constexpr char kRefusedByPeerPayloadUrl[] = "splitveil/refused-by-peer";

// Payload that marks a ResourceExhausted as the verdict of a release gate (AsHalt and IsHalt in common/process). The
// only payload that goes to the peer, as the same text in the error details; without it, gRPC's own limits of threads
// and message sizes, which end calls with the same code, would read as a halt.
inline constexpr char kHaltedPayloadUrl[] = "splitveil/halted";

// Payloads other than the mark of a halt are not sent.
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

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_TRANSPORT_STATUS_MAPPER_H_
