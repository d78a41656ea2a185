#include "common/process/exit_code.h"

#include <unistd.h>

#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

#include "common/telemetry/log.h"

namespace splitveil {
namespace {

// Spelled as common/transport spells them; written twice so that this folder does not pull in gRPC.
constexpr char kRefusedByPeerPayloadUrl[] = "splitveil/refused-by-peer";
constexpr char kHaltedPayloadUrl[] = "splitveil/halted";
constexpr char kStoppedPayloadUrl[] = "splitveil/stopped-on-request";

}  // namespace

absl::Status AsRefusal(absl::Status status) {
  status.SetPayload(kRefusedByPeerPayloadUrl, absl::Cord());  // No effect on OK.
  return status;
}

absl::Status AsHalt(absl::Status status) {
  if (absl::IsResourceExhausted(status)) {
    status.SetPayload(kHaltedPayloadUrl, absl::Cord());
  }
  return status;
}

bool IsHalt(const absl::Status& status) {
  return absl::IsResourceExhausted(status) && status.GetPayload(kHaltedPayloadUrl).has_value();
}

absl::Status StoppedOnRequest(absl::string_view what) {
  absl::Status status = absl::CancelledError(absl::StrCat("stopped on request, before ", what, " was complete"));
  status.SetPayload(kStoppedPayloadUrl, absl::Cord());
  return status;
}

bool IsStoppedOnRequest(const absl::Status& status) {
  return absl::IsCancelled(status) && status.GetPayload(kStoppedPayloadUrl).has_value();
}

absl::Status PeerStartedAgain(absl::string_view peer) {
  return absl::AbortedError(
      absl::StrCat(peer, " has been started again: the run resumes from a checkpoint if both have one"));
}

ExitCode ExitCodeFor(const absl::Status& status) {
  // First, since the peer's release gate halts both parties: its verdict is no refusal of this one.
  if (IsHalt(status)) {
    return ExitCode::kHalted;
  }
  if (IsStoppedOnRequest(status)) {
    return ExitCode::kStopped;
  }
  if (status.GetPayload(kRefusedByPeerPayloadUrl).has_value() && !absl::IsAborted(status)) {
    return absl::IsInternal(status) ? ExitCode::kPeerUnreachable  // A failure of its own, such as a full disk.
                                    : ExitCode::kRefused;
  }
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return ExitCode::kDone;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kDataLoss:
      return ExitCode::kInvalidInput;
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kAborted:
      return ExitCode::kPeerUnreachable;
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kFailedPrecondition:
      return ExitCode::kRefused;
    default:
      return ExitCode::kInternal;
  }
}

int Exit(const char* program, const absl::Status& status) {
  if (!status.ok()) {
    const std::string message =
        status.message().empty() ? absl::StatusCodeToString(status.code()) : std::string(status.message());
    WriteLine(STDERR_FILENO, absl::StrCat(OneLine(absl::StrCat(program, ": error: ", message)), "\n"));
  }
  return static_cast<int>(ExitCodeFor(status));
}

}  // namespace splitveil
