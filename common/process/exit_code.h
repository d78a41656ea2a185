// What a program's exit code says (contract.md).
#ifndef SPLITVEIL_COMMON_PROCESS_EXIT_CODE_H_
#define SPLITVEIL_COMMON_PROCESS_EXIT_CODE_H_

#include "absl/status/status.h"

namespace splitveil {

enum class ExitCode {
  kDone = 0,
  kInternal = 1,
  kInvalidInput = 2,     // Usage, configuration or input data.
  kPeerUnreachable = 3,  // Not reached within its deadline, or gone.
  kRefused = 4,          // By the peer or of the peer: agreement, identity, schedule.
  kHalted = 5,           // By the release gate.
};

// Marks an error as decided by, or about, the peer: exit 4, unless it is a halt. Keeps code and message; OK stays OK.
// The mark is a payload of type "splitveil/refused-by-peer", the one that common/transport puts on statuses from the
// peer.
absl::Status AsRefusal(absl::Status status);

// OK: 0. ResourceExhausted, by whichever party's release gate: 5. Refusals: 4. Otherwise InvalidArgument, NotFound,
// OutOfRange, AlreadyExists: 2; Cancelled, Unavailable, DeadlineExceeded (the peer is gone): 3; PermissionDenied,
// Unauthenticated, FailedPrecondition: 4; the rest: 1.
ExitCode ExitCodeFor(const absl::Status& status);

// Prints "PROGRAM: error: MESSAGE" on standard error unless OK, as one line without control characters, and returns the
// code for main. An error without a message shows the name of its code.
int Exit(const char* program, const absl::Status& status);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_PROCESS_EXIT_CODE_H_
