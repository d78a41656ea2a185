// What a program's exit code says (ARCHITECTURE.md, "Exit codes").
#ifndef SPLITVEIL_COMMON_PROCESS_EXIT_CODE_H_
#define SPLITVEIL_COMMON_PROCESS_EXIT_CODE_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace splitveil {

enum class ExitCode {
  kDone = 0,
  kInternal = 1,
  kInvalidInput = 2,     // Usage, configuration or input data.
  kPeerUnreachable = 3,  // Not reached within its deadline, or gone.
  kRefused = 4,          // By the peer or of the peer: agreement, identity, schedule.
  kHalted = 5,           // By the release gate.
  kStopped = 6,          // On request (SIGTERM, SIGINT), before the work was complete.
  kPolicyNotMet = 10,    // The verdict of an audit, no error.
};

// Marks an error as decided by, or about, the peer: exit 4, unless IsHalt. Keeps code and message; OK stays OK.
// The mark is a payload of type "splitveil/refused-by-peer", the one that common/transport puts on statuses from the
// peer.
absl::Status AsRefusal(absl::Status status);

// Marks a ResourceExhausted as the verdict of a release gate: exit 5. Keeps code, message and payloads. The mark is a
// payload of type "splitveil/halted", the one that common/transport carries to the peer, so that both parties end with
// the same exit code. Any other code is no verdict of the gate and comes back unmarked, as does OK.
absl::Status AsHalt(absl::Status status);

// Whether a release gate, this party's or the peer's, halted the run. A ResourceExhausted without the mark is something
// else: gRPC's limits of threads and message sizes end calls with it too.
bool IsHalt(const absl::Status& status);

// "stopped on request, before WHAT was complete": Cancelled, told apart from a Cancelled of the peer's by a payload.
// Exit 6.
absl::Status StoppedOnRequest(absl::string_view what = "the run");
bool IsStoppedOnRequest(const absl::Status& status);

// The peer's process lost the run and a new one has taken its place: Aborted. The run resumes from the latest
// checkpoint that both parties have, if they keep any; else exit 3.
absl::Status PeerStartedAgain(absl::string_view peer);

// OK: 0. IsHalt: 5. IsStoppedOnRequest: 6. Refusals: 4. Otherwise InvalidArgument, NotFound, OutOfRange, AlreadyExists,
// DataLoss (a damaged file): 2; Cancelled, Unavailable, DeadlineExceeded, Aborted (the peer is gone): 3;
// PermissionDenied, Unauthenticated, FailedPrecondition: 4; the rest, ResourceExhausted among it: 1. What fails in this
// process alone must therefore have a code of 1 or 2.
ExitCode ExitCodeFor(const absl::Status& status);

// Prints "PROGRAM: error: MESSAGE" on standard error unless OK, as one line without control characters, and returns the
// code for main. An error without a message shows the name of its code.
int Exit(const char* program, const absl::Status& status);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_PROCESS_EXIT_CODE_H_
